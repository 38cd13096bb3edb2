"""A gRPC client that knows nothing of Bourg: it asks the server for its services and their messages
by reflection, makes the messages from the descriptors, and calls. What it finds goes to stdout as
JSON. Usage: reflection.py VERSION ADDRESS SERVER_NAME CLIENT_DIRECTORY
"""

import json
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

STRING, MESSAGE, BYTES = 9, 11, 12
OPTIONAL, REPEATED = 1, 3


def reflection_file(package):
    """The part of grpc/reflection/v1/reflection.proto that is used here, and of that of v1alpha."""
    file = descriptor_pb2.FileDescriptorProto(
        name="reflection.proto", package=package, syntax="proto3")

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for field, number, kind, label, of in fields:
            made.field.add(name=field, number=number, type=kind, label=label,
                           type_name=of and f".{package}.{of}")

    message("ServerReflectionRequest",
            ("file_by_filename", 3, STRING, OPTIONAL, None),
            ("file_containing_symbol", 4, STRING, OPTIONAL, None),
            ("list_services", 7, STRING, OPTIONAL, None))
    message("FileDescriptorResponse", ("file_descriptor_proto", 1, BYTES, REPEATED, None))
    message("ServiceResponse", ("name", 1, STRING, OPTIONAL, None))
    message("ListServiceResponse", ("service", 1, MESSAGE, REPEATED, "ServiceResponse"))
    message("ServerReflectionResponse",
            ("file_descriptor_response", 4, MESSAGE, OPTIONAL, "FileDescriptorResponse"),
            ("list_services_response", 6, MESSAGE, OPTIONAL, "ListServiceResponse"))
    # As in the original: a choice, so that an empty text can be sent.
    request = file.message_type[0]
    request.oneof_decl.add(name="message_request")
    for field in request.field:
        field.oneof_index = 0
    return file


def message_class(pool, name):
    descriptor = pool.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


class Reflection:
    def __init__(self, channel, version):
        package = f"grpc.reflection.{version}"
        pool = descriptor_pool.DescriptorPool()
        pool.Add(reflection_file(package))
        self.request = message_class(pool, f"{package}.ServerReflectionRequest")
        response = message_class(pool, f"{package}.ServerReflectionResponse")
        self.ask = channel.stream_stream(
            f"/{package}.ServerReflection/ServerReflectionInfo",
            request_serializer=self.request.SerializeToString,
            response_deserializer=response.FromString)
        self.files = {}

    def asked(self, **what):
        return next(iter(self.ask(iter([self.request(**what)]), timeout=30)))

    def services(self):
        listed = self.asked(list_services="").list_services_response
        return sorted(service.name for service in listed.service)

    def take(self, answer):
        """Takes the files of an answer, and those that they need."""
        for encoded in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(encoded)
            if file.name not in self.files:
                self.files[file.name] = file
                for needed in file.dependency:
                    if needed not in self.files:
                        self.take(self.asked(file_by_filename=needed))

    def pool(self, *symbols):
        for symbol in symbols:
            self.take(self.asked(file_containing_symbol=symbol))
        pool = descriptor_pool.DescriptorPool()
        added = set()

        def add(file):
            if file.name not in added:
                added.add(file.name)
                for needed in file.dependency:
                    add(self.files[needed])
                pool.Add(file)

        for file in self.files.values():
            add(file)
        return pool


def call(channel, pool, called, method, **fields):
    described = pool.FindServiceByName(called).FindMethodByName(method)
    request = message_class(pool, described.input_type.full_name)
    response = message_class(pool, described.output_type.full_name)
    made = channel.unary_unary(
        f"/{called}/{method}", request_serializer=request.SerializeToString,
        response_deserializer=response.FromString)
    answer = made(request(**fields), timeout=30)
    return json_format.MessageToDict(answer, including_default_value_fields=True)


def main(version, address, name, client):
    def read(file):
        with open(f"{client}/{file}", "rb") as opened:
            return opened.read()

    credentials = grpc.ssl_channel_credentials(
        read("user.ca.pem"), read("user.key"), read("user.pem"))
    options = [("grpc.ssl_target_name_override", name)]
    with grpc.secure_channel(address, credentials, options) as channel:
        reflection = Reflection(channel, version)
        services = reflection.services()
        # Each service is described, those of reflection too.
        reflection.pool(*services)
        pool = reflection.pool("bourg.v1.Cell", "grpc.health.v1.Health")
        try:
            call(channel, pool, "grpc.health.v1.Health", "Check", service="bourg.v1.Nothing")
            unknown = "known"
        except grpc.RpcError as error:
            unknown = error.code().name
        health = {
            of: call(channel, pool, "grpc.health.v1.Health", "Check", service=of)["status"]
            for of in ["", *services]
        }
        cell = call(channel, pool, "bourg.v1.Cell", "Status")
    print(json.dumps({"services": services, "health": health, "unknown": unknown, "cell": cell}))


main(*sys.argv[1:])
