"""A ring all-reduce over TCP: each task of the gang has a vector, and all get the sum of all vectors.

Each task sends to the next one and receives from the one before. PEERS has the address of every task, by index: the
cell knows them before any task of the gang starts. If a peer ends, this program fails, and the cell starts the whole
gang again.
"""

import os
import socket
import struct
import sys
import threading
import time

RANK, SIZE = int(os.environ["BORG_TASK"]), int(os.environ["BORG_TASKS"])
PEERS = os.environ["PEERS"].split(",")
ROUNDS, LENGTH = int(os.environ.get("ROUNDS", "10")), 1024
PAUSE = float(os.environ.get("PAUSE", "0"))


def connect(address):
    """The next task may not listen yet."""
    host, port = address.rsplit(":", 1)
    for attempt in range(600):
        try:
            return socket.create_connection((host, int(port)), timeout=60)
        except OSError:
            if attempt == 599:
                raise
            time.sleep(0.1)


def receive(peer, size):
    """As many bytes, or an error if the peer has ended."""
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            sys.exit(f"task {(RANK - 1) % SIZE} has ended")
        data += piece
    return data


def exchange(to, source, numbers):
    """Sends numbers to the next task, and returns as many from the one before."""
    data = struct.pack(f"{len(numbers)}q", *numbers)
    sends = threading.Thread(target=to.sendall, args=(data,))
    sends.start()
    received = struct.unpack(f"{len(numbers)}q", receive(source, len(data)))
    sends.join()
    return received


def all_reduce(vector, to, source):
    """The sum of the vectors of all tasks, in 2 (SIZE - 1) steps, each of a part of the vector."""
    part = len(vector) // SIZE
    parts = [vector[i * part : (i + 1) * part] for i in range(SIZE)]
    for step in range(SIZE - 1):
        sent, got = (RANK - step) % SIZE, (RANK - step - 1) % SIZE
        received = exchange(to, source, parts[sent])
        parts[got] = [a + b for a, b in zip(parts[got], received)]
    for step in range(SIZE - 1):
        sent, got = (RANK + 1 - step) % SIZE, (RANK - step) % SIZE
        parts[got] = list(exchange(to, source, parts[sent]))
    return [number for part in parts for number in part]


def main():
    if len(PEERS) != SIZE:
        sys.exit(f"{len(PEERS)} addresses of {SIZE} tasks")
    print(f"task {RANK} of {SIZE} begins", flush=True)
    listener = socket.create_server(("0.0.0.0", int(os.environ["PORT"])))
    listener.settimeout(60)
    to = connect(PEERS[(RANK + 1) % SIZE])
    source, _ = listener.accept()
    length = LENGTH - LENGTH % SIZE
    for number in range(1, ROUNDS + 1):
        vector = [number * (RANK + 1) * (i + 1) for i in range(length)]
        total = all_reduce(vector, to, source)
        expected = [number * SIZE * (SIZE + 1) // 2 * (i + 1) for i in range(length)]
        if total != expected:
            sys.exit(f"round {number}: the sum is wrong")
        print(f"round {number}: the sum is right, and begins with {total[0]}", flush=True)
        time.sleep(PAUSE)


main()
