"""A web application with dependencies: Flask, and what it needs."""

import os

from flask import Flask

app = Flask(__name__)


@app.get("/")
def greeting():
    return f"{os.environ.get('GREETING', 'hello')} from task {os.environ['BORG_TASK']}\n"


@app.get("/healthz")
def healthz():
    return "healthy\n"


if __name__ == "__main__":
    app.run(host="0.0.0.0", port=int(os.environ["PORT"]))
