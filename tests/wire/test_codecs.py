"""The generated codecs on declarations that have everything, on what must be refused, and on what is odd but right."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kafkapy.errors import ProtocolError
from kafkapy.limits import DECODE_ELEMENTS_MAX
from kafkapy.wire import compile_decode
from kafkapy.wire.compiler import compile_decoder, decoder_source, encoder_source
from kafkapy.wire.messages.metadata import MetadataRequest
from kafkapy.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkapy.wire.primitives import read_uvarint, write_uvarint
from kafkapy.wire.schema import (
    Data,
    EncodeError,
    Struct,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uint16,
    uint32,
    uuid,
)


class Inner(Struct):
    """Nested, with a field that comes later and a tagged one."""

    number: int = int32(default=-1)
    late: int = int64("1+", default=7)
    label: str = string("2+", tag=0, tagged="2+")


class Empty(Struct):
    """Has nothing in version 0."""

    late: int = int32("1+")


class Everything(Data, versions="0-3", flexible="2+"):
    """Every kind of field, nullable and not, tagged and not."""

    flag: bool = boolean()
    small: int = int8()
    short: int = int16()
    port: int = uint16()
    word: int = uint32()
    ratio: float = float64()
    id: bytes = uuid()
    text: str = string()
    text_or_null: str | None = string(nullable="0+", default=None)
    blob: bytes = bytes_()
    blob_or_null: bytes | None = bytes_(nullable="1+")
    old_text: str = string(flexible=False)
    inner: Inner = struct(Inner)
    inner_or_null: Inner | None = struct(Inner, "1+", nullable="1+", default=None, ignorable=True)
    inners: list[Inner] = array(Inner)
    numbers: list[int] = array(int32)
    flags: list[bool] = array(boolean)
    texts: list[str] | None = array(string, nullable="0+")
    ids: list[bytes] = array(uuid)
    blobs: list[bytes] = array(bytes_)
    empties: list[Empty] = array(Empty)
    log: Any = records(nullable="0+")
    tagged_inner: Inner | None = struct(Inner, "2+", nullable="2+", default=None, tag=0, tagged="2+", ignorable=True)
    tagged_numbers: list[int] = array(int16, "2+", tag=5, tagged="2+", ignorable=True)
    tagged_text: str = string("2+", tag=200, tagged="2+", default="hello", ignorable=True)
    only_old: int = int32("0-1", default=3)


def everything() -> Everything:
    """An object that says something in every field."""
    return Everything(
        flag=True,
        small=-128,
        short=-5,
        port=65535,
        word=2**32 - 1,
        ratio=-0.25,
        id=bytes(range(16)),
        text="z" * 130,
        text_or_null="ü",
        blob=b"b" * 200,
        blob_or_null=b"",
        old_text="old",
        inner=Inner(number=4),
        inners=[Inner(number=number) for number in range(130)],
        numbers=list(range(20)),
        flags=[True, False],
        texts=["", "a" * 32767],
        ids=[bytes(16), b"\xff" * 16],
        blobs=[b"", b"x"],
        empties=[Empty(), Empty()],
        log=memoryview(b"batch"),
    )


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_everything_goes_there_and_back(version: int) -> None:
    """All kinds of fields, by both codecs."""
    message = everything()
    if version >= 2:
        message.tagged_inner = Inner(label="tagged", late=9)
        message.tagged_numbers = [1, -1]
        message.tagged_text = ""
        message.inners[0].label = "first"
    raw = message.encode(version)
    assert Everything.decode(raw, version) == message
    assert Everything.construct(version).build(message) == raw
    assert Everything.construct(version).parse(raw) == message
    assert Everything.from_json(message.to_json(version), version) == message


def test_defaults_in_the_tag_section_are_not_written() -> None:
    """An empty tag section is one zero byte, and unset fields come back as their defaults."""
    raw = Everything(only_old=3).encode(3)
    assert raw.endswith(b"\x00")
    message = Everything.decode(raw, 3)
    assert message.tagged_text == "hello"
    assert message.tagged_inner is None


def test_tags_are_ascending_and_carry_their_size() -> None:
    """Number of tags, then tag and size in front of each content."""
    raw = Everything(tagged_text="ab", tagged_numbers=[1]).encode(2)
    assert raw.endswith(b"\x02" + b"\x05\x03\x02\x00\x01" + b"\xc8\x01\x03\x03ab")


def test_fields_that_a_version_lacks() -> None:
    """Dropped if ignorable, an error otherwise, nothing at the default."""
    assert Everything.decode(Everything(inner_or_null=Inner()).encode(0), 0).inner_or_null is None
    with pytest.raises(EncodeError, match=r"Inner\.late is not in version 0"):
        Everything(inner=Inner(late=8)).encode(0)
    with pytest.raises(EncodeError, match="only_old"):
        Everything(only_old=4).encode(2)
    with pytest.raises(EncodeError, match="current_leader"):
        response = PartitionProduceResponse()
        response.current_leader.leader_id = 1
        ProduceResponse(responses=[TopicProduceResponse(partition_responses=[response])]).encode(9)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("short", 40_000),
        ("short", None),
        ("port", -1),
        ("id", b"short"),
        ("text", None),
        ("text", "x" * 32768),
        ("text", b"bytes"),
        ("text", "\ud800"),
        ("blob", None),
        ("numbers", None),
        ("numbers", [2**31]),
        ("inner", None),
        ("inners", [None]),
        ("log", 7),
    ],
)
@pytest.mark.parametrize("version", [1, 3])
def test_what_cannot_be_written(version: int, field: str, value: Any) -> None:
    """A value that its field cannot hold is an EncodeError, and nothing of the message stays in the output."""
    message = everything()
    setattr(message, field, value)
    out = bytearray(b"before")
    with pytest.raises(EncodeError):
        Everything.encoder(version)(message, out, [])
    assert out == b"before"


def test_the_field_that_cannot_be_written_is_named() -> None:
    """Also deep inside, because a response has hundreds of them."""
    partition = PartitionProduceResponse(error_code=40_000)
    response = ProduceResponse(
        responses=[TopicProduceResponse(partition_responses=[PartitionProduceResponse(), partition])]
    )
    with pytest.raises(
        EncodeError, match=r"responses\[0\]\.partition_responses\[1\]\.error_code is 40000, which is no int16"
    ):
        response.encode(9)


class Slice:
    """Stands for records in a file."""

    size = 1000


def test_file_slices_are_left_to_the_sender() -> None:
    """The length is written, the bytes are not: their place and the slice go to `splits`."""
    data = Slice()
    partition = PartitionProduceData(index=1, records=data)  # type: ignore[arg-type]
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[partition])])
    out, splits = bytearray(b"1234"), []
    ProduceRequest.encoder(9)(request, out, splits)
    ((place, found),) = splits
    assert found is data
    assert out[:place].endswith(b"\xe9\x07")
    assert ProduceRequest.decode(out[4:place] + bytes(1000) + out[place:], 9).topic_data[0].partition_data[0].index == 1
    with pytest.raises(EncodeError, match="file slice"):
        request.encode(9)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_records_are_a_view_of_the_input(kind: Any) -> None:
    """Records are not copied, from whatever buffer, and other bytes are: they outlive the buffer."""
    partition = PartitionProduceData(records=memoryview(b"batch"))
    raw = ProduceRequest(topic_data=[TopicProduceData(partition_data=[partition])]).encode(9)
    buffer = kind(bytearray(b"??" + raw + b"??"))
    request, end = ProduceRequest.decoder(9)(buffer, 2, len(raw) + 2)
    assert end == len(raw) + 2
    view = request.topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    assert view == b"batch"
    assert view.obj is (buffer.obj if kind is memoryview else buffer)
    assert type(Everything.decode(kind(everything().encode(1)), 1).blob) is bytes


def test_any_value_but_zero_is_true() -> None:
    """As Kafka reads booleans."""
    raw = bytearray(Everything(only_old=3).encode(3))
    raw[0] = 2
    assert Everything.decode(raw, 3).flag is True


def test_null_where_there_is_none() -> None:
    """Null in a field that is not nullable in the version is refused."""
    for version, length in ((8, b"\xff\xff\xff\xff"), (9, b"\x00")):
        good = ProduceRequest(acks=1).encode(version)
        head = len(good) - (1 if version == 9 else 0) - len(length)
        with pytest.raises(ProtocolError, match="topic_data of ProduceRequest is null"):
            ProduceRequest.decode(good[:head] + length + good[head + len(length) :], version)
    with pytest.raises(ProtocolError):
        Everything.decode(b"\0" * 34 + b"\xff\xff" + b"\0" * 80, 0)


@pytest.mark.parametrize(
    ("size", "content"), [(4, b"\x02\x00\x01\x00"), (2, b"\x02\x00\x01"), (3, b"\x03\x00\x01\x00\x02")]
)
def test_a_tag_is_bound_by_its_size(size: int, content: bytes) -> None:
    """Content that is longer or shorter than the size in front of it is refused."""
    raw = Everything().encode(2)[:-1]
    assert Everything.decode(raw + b"\x01\x05\x03\x02\x00\x01", 2).tagged_numbers == [1]
    with pytest.raises(ProtocolError):
        Everything.decode(raw + b"\x01\x05" + bytes([size]) + content + bytes(4), 2)


def test_tags_in_any_order_and_unknown_ones() -> None:
    """Order is not required when reading, and what is not known is skipped; the last of two wins."""
    raw = Everything().encode(2)[:-1]
    tags = b"\x04" + b"\xc8\x01\x02\x02a" + b"\x63\x03abc" + b"\x05\x01\x01" + b"\xc8\x01\x02\x02b"
    message = Everything.decode(raw + tags, 2)
    assert (message.tagged_text, message.tagged_numbers) == ("b", [])


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x0f\x42\x41", b"\x80\x00\x00\x00", b"\xff\xff\xff\xfe"])
def test_counts_cost_nothing_by_themselves(count: bytes) -> None:
    """A count that the bytes cannot hold is refused before anything is made for it."""
    started = time.perf_counter()
    for version in (0, 1):
        if version == 1 and count[0] > 127:
            continue  # null there: all topics
        with pytest.raises(ProtocolError):
            MetadataRequest.decode(count + bytes(100), version)
    assert time.perf_counter() - started < 0.1


def test_elements_of_no_size_are_counted_too() -> None:
    """Elements that take no bytes cannot be checked against the bytes that are left, only against the limit."""
    raw = Everything(only_old=3).encode(0)
    at = len(raw) - 12  # the count of empties, then null records and only_old
    good = Everything.decode(raw[:at] + (1000).to_bytes(4, "big") + raw[at + 4 :], 0)
    assert len(good.empties) == 1000
    with pytest.raises(ProtocolError, match="cannot have"):
        Everything.decode(raw[:at] + (DECODE_ELEMENTS_MAX + 1).to_bytes(4, "big") + raw[at + 4 :], 0)


def test_elements_of_all_arrays_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small arrays count as much as a large one."""
    monkeypatch.setattr(compile_decode, "DECODE_ELEMENTS_MAX", 10)
    decoder = compile_decoder(ProduceRequest, 9)
    for topics, fits in ((5, True), (6, False)):
        topic = TopicProduceData(partition_data=[PartitionProduceData()])
        raw = ProduceRequest(topic_data=[topic] * topics).encode(9)
        if fits:
            decoder(raw, 0, len(raw))
        else:
            with pytest.raises(ProtocolError, match="cannot have"):
                decoder(raw, 0, len(raw))


def test_strings_must_be_utf8() -> None:
    """Bytes that are no UTF-8 are refused, in short and in long strings."""
    for size in (3, 200):
        raw = bytearray(ProduceRequest(transactional_id="x" * size).encode(9))
        raw[3] = 0xFF
        with pytest.raises(ProtocolError):
            ProduceRequest.decode(raw, 9)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 2**32 - 1])
def test_unsigned_varints(value: int) -> None:
    """Up to 32 bits, whatever their length."""
    out = bytearray()
    write_uvarint(out, value)
    assert read_uvarint(out, 0) == (value, len(out))


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"])
def test_unsigned_varints_have_an_end(raw: bytes) -> None:
    """More than five bytes, or more than 32 bits, is refused."""
    with pytest.raises(ProtocolError):
        read_uvarint(raw, 0)


def test_generated_source_can_be_read() -> None:
    """The source is there for whoever wants to know what runs."""
    assert decoder_source(ProduceRequest, 9).startswith("def decode(buf, pos, end):")
    assert encoder_source(ProduceRequest, 9).startswith("def encode(o, out, splits):")
