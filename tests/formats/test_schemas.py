"""Avro and protocol buffers by their schemas, held to other people's encoders."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import pytest

from gpulake.formats.avro import AvroSchema
from gpulake.formats.proto_rows import ProtoSchema

fastavro = pytest.importorskip("fastavro", reason="fastavro is missing")
PROTO = """
// A comment; with "quotes" { and braces
syntax = "proto3";
package site.gpus;
import "google/protobuf/timestamp.proto";
import public "google/protobuf/wrappers.proto";
import "node.proto";
option java_package = "org.example";
message Sample {
  option (some.option) = { a: 1 b: "x;}" };
  enum Kind { option allow_alias = true; UNKNOWN = 0; BUSY = 1; OCCUPIED = 1; COLD = -2 [deprecated = true]; }
  message Inner { sint32 shift = 1; message Deep { bool is_deep = 1; } Deep deep = 2; }
  google.protobuf.Timestamp at = 1;
  map<string, string> labels = 2;
  repeated int32 links = 3;
  repeated string names = 4 [json_name = "n"];
  Kind kind = 5;
  Inner inner = 6;
  oneof value { double watts = 7; int64 joules = 8; }
  optional int32 told = 9;
  int32 zero = 10;
  fixed64 wide = 11;
  float part = 12;
  reserved 13, 15 to 20;
  reserved "old";
  common.Node node = 21;
  google.protobuf.DoubleValue maybe = 22;
  bytes raw = 23;
  uint64 large = 24;
  map<int32, Inner> inners = 25;
  repeated Kind kinds = 26;
}
service Read { rpc All (Sample) returns (stream Sample) { option idempotency_level = NO_SIDE_EFFECTS; } }
"""
NODE = 'syntax = "proto3"; package site.common; message Node { string name = 1; }'


def google_message(text_name: str) -> Any:
    """The message, by Google's own library, from descriptors written by hand."""
    pytest.importorskip("google.protobuf", reason="protobuf is missing")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    node = descriptor_pb2.FileDescriptorProto(name="node.proto", package="site.common", syntax="proto3")
    node.message_type.add(name="Node").field.add(name="name", number=1, type=9, label=1)
    pool.Add(node)
    file = descriptor_pb2.FileDescriptorProto(name="sample.proto", package="site.gpus", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto", "node.proto"])
    one = file.message_type.add(name="Sample")
    kinds = one.enum_type.add(name="Kind")
    kinds.options.allow_alias = True
    for name, number in (("UNKNOWN", 0), ("BUSY", 1), ("OCCUPIED", 1), ("COLD", -2)):
        kinds.value.add(name=name, number=number)
    inner = one.nested_type.add(name="Inner")
    inner.field.add(name="shift", number=1, type=17, label=1)
    inner.nested_type.add(name="Deep").field.add(name="is_deep", number=1, type=8, label=1)
    own = ".site.gpus.Sample"
    inner.field.add(name="deep", number=2, type=11, label=1, type_name=f"{own}.Inner.Deep")
    inners: dict[str, Any] = {"type": 11, "type_name": f"{own}.Inner"}
    for name, key_type, value in (("LabelsEntry", 9, {"type": 9}), ("InnersEntry", 5, inners)):
        entry = one.nested_type.add(name=name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key_type, label=1)
        entry.field.add(name="value", number=2, label=1, **value)
    for name, number, kind, label, type_name in (
        ("at", 1, 11, 1, ".google.protobuf.Timestamp"), ("labels", 2, 11, 3, f"{own}.LabelsEntry"),
        ("links", 3, 5, 3, ""), ("names", 4, 9, 3, ""), ("kind", 5, 14, 1, f"{own}.Kind"),
        ("inner", 6, 11, 1, f"{own}.Inner"), ("zero", 10, 5, 1, ""), ("wide", 11, 6, 1, ""), ("part", 12, 2, 1, ""),
        ("node", 21, 11, 1, ".site.common.Node"), ("maybe", 22, 11, 1, ".google.protobuf.DoubleValue"),
        ("raw", 23, 12, 1, ""), ("large", 24, 4, 1, ""), ("inners", 25, 11, 3, f"{own}.InnersEntry"),
        ("kinds", 26, 14, 3, f"{own}.Kind"),
    ):  # fmt: skip
        one.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)
    one.oneof_decl.add(name="value")
    one.field.add(name="watts", number=7, type=1, label=1, oneof_index=0)
    one.field.add(name="joules", number=8, type=3, label=1, oneof_index=0)
    one.oneof_decl.add(name="_told")
    one.field.add(name="told", number=9, type=5, label=1, oneof_index=1, proto3_optional=True)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(text_name))


def test_what_googles_library_writes_is_read_with_zeros_and_without_what_nobody_said() -> None:
    sample = google_message("site.gpus.Sample")
    schema = ProtoSchema(PROTO, [NODE])
    nothing = {"kind": "UNKNOWN", "zero": 0, "wide": 0, "part": 0, "large": 0}
    assert schema.decoded(b"\0" + sample().SerializeToString()) == nothing
    full = sample(
        labels={"a": "b"}, links=[0, -1, 300], names=["x", ""], kind=1, joules=-5, told=0, zero=-7, wide=2**63,
        part=0.5, raw=b"\xff", large=2**64 - 1, kinds=[0, -2, 9],
    )  # fmt: skip
    full.at.FromDatetime(datetime(2026, 1, 2, 3, 4, 5, 250_000, UTC))
    full.inner.shift, full.inner.deep.is_deep = -3, True
    full.node.name = "g1"
    full.maybe.value = 0
    full.inners[-4].shift = 0
    assert schema.decoded(b"\0" + full.SerializeToString()) == {
        "at": "2026-01-02T03:04:05.250000+00:00",
        "labels": {"a": "b"},
        "links": [0, -1, 300],
        "names": ["x", ""],
        "kind": "BUSY",
        "inner": {"shift": -3, "deep": {"is_deep": True}},
        "joules": -5,
        "told": 0,
        "zero": -7,
        "wide": 2**63,
        "part": 0.5,
        "node": {"name": "g1"},
        "maybe": 0,
        "raw": b"\xff",
        "large": 2**64 - 1,
        "inners": {"-4": {"shift": 0}},
        "kinds": ["UNKNOWN", "COLD", 9],
    }


def test_the_indexes_of_a_message_choose_its_type() -> None:
    schema = ProtoSchema(PROTO, [NODE])
    # Two indexes, zigzag: the first message, the first one in it, and the first one in that.
    assert schema.decoded(b"\x04\x00\x00\x08\x05") == {"shift": -3}
    assert schema.decoded(b"\x06\x00\x00\x00\x08\x01") == {"is_deep": True}
    with pytest.raises(ValueError, match="the schema has no message 3"):
        schema.decoded(b"\x02\x06")


def test_proto2_and_editions_say_nothing_of_what_is_not_there() -> None:
    for head in ("", 'syntax = "proto2";', 'edition = "2023";'):
        assert ProtoSchema(head + "message A { optional int32 x = 1 [default = 7]; }").decoded(b"\0") == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message A {", "the schema ends within a statement"),
        ("message A { int32 x 1; }", "'1' where '=' is expected"),
        ('syntax = "proto3"; message A { Missing x = 1; }', "the schema has no type Missing"),
        ("message A { optional group G = 1 { } }", "a group"),
        ('{"type": "record"}', "the schema ends"),
        ('import "x";', "the schema has no message 0"),
    ],
)
def test_what_is_no_proto_file_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ProtoSchema(text).decoded(b"\0")


def test_bytes_that_are_of_no_schema_are_a_value_error_and_nothing_else() -> None:
    fields = [{"name": "a", "type": "string"}, {"name": "b", "type": ["null", {"type": "map", "values": "double"}]}]
    schemas = (
        ProtoSchema(PROTO, [NODE]),
        AvroSchema(json.dumps({"type": "record", "name": "r", "fields": fields})),
        AvroSchema('{"type": "enum", "name": "e", "symbols": ["A"]}'),
    )
    moments = random.Random(3)
    for schema in schemas:
        for _ in range(3_000):
            message = moments.randbytes(moments.randrange(40))
            with suppress(ValueError):
                schema.decoded(message)


def test_a_chain_of_messages_without_end_is_refused() -> None:
    schema, message = ProtoSchema("message A { optional A a = 1; }"), b""
    for _ in range(80):
        size = len(message)
        message = b"\x0a" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + message
    with pytest.raises(ValueError, match="without end"):
        schema.decoded(b"\0" + message)


def test_avro_has_references_and_logical_types_and_refuses_what_is_left_over() -> None:
    node = {"type": "record", "name": "common.Node", "fields": [{"name": "name", "type": "string"}]}
    at = {"type": "long", "logicalType": "timestamp-millis"}
    sample = {
        "type": "record",
        "name": "Sample",
        "fields": [{"name": "node", "type": "common.Node"}, {"name": "at", "type": at}],
    }
    row = {"node": {"name": "g1"}, "at": datetime(2026, 1, 2, tzinfo=UTC)}
    named: dict[str, Any] = {}
    fastavro.parse_schema(node, named_schemas=named)
    written = BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(sample, named_schemas=named), row)
    schema = AvroSchema(json.dumps(sample), [json.dumps(node)])
    assert schema.decoded(written.getvalue()) == row
    with pytest.raises(ValueError, match="1 bytes are left"):
        schema.decoded(written.getvalue() + b"\0")
    with pytest.raises(ValueError, match="the schema is no Avro"):
        AvroSchema(json.dumps(sample))
    with pytest.raises(ValueError, match="the schema is no Avro"):
        AvroSchema("{")
