"""A publisher of KV events with vLLM's layout, on the ZeroMQ and msgpack libraries that vLLM uses.

Usage: publisher.py BATCHES [PUB_PORT REPLAY_PORT]. It has published BATCHES batches before it listens, prints its ports,
and reads commands: `live` publishes a batch, `lost` one that reaches no subscriber. Each batch stores the next block of
one sequence: 16 tokens.
"""

import struct
import sys

import msgspec
import zmq


class BlockStored(msgspec.Struct, array_like=True, tag=True):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str
    lora_name: str | None
    extra_keys: list | None
    group_idx: int


class Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[BlockStored]
    data_parallel_rank: int | None


def block_hash(block):
    return (block + 1) * 0x9E3779B97F4A7C15 % 2**64


def batch(block):
    tokens = list(range(16 * block, 16 * block + 16))
    parent = block_hash(block - 1) if block else None
    stored = BlockStored([block_hash(block)], parent, tokens, 16, None, "GPU", None, [None], 0)
    return msgspec.msgpack.encode(Batch(1.5, [stored], 0))


context = zmq.Context()
# Like PUB, and it says when somebody has subscribed: what is published before is lost.
publisher, replay = context.socket(zmq.XPUB), context.socket(zmq.ROUTER)
ports = [int(port) for port in sys.argv[2:]]
for socket, port in zip((publisher, replay), ports or (0, 0)):
    socket.bind(f"tcp://127.0.0.1:{port}" if port else "tcp://127.0.0.1:*")
for socket in (publisher, replay):
    print(socket.getsockopt_string(zmq.LAST_ENDPOINT).rsplit(":", 1)[1], flush=True)

topic = b"kv@127.0.0.1:8000@m"
buffer = [batch(block) for block in range(int(sys.argv[1]))]
publisher.recv()

poller = zmq.Poller()
poller.register(replay, zmq.POLLIN)
poller.register(sys.stdin.fileno(), zmq.POLLIN)
while True:
    ready = dict(poller.poll())
    if replay in ready:
        client, _, start = replay.recv_multipart()
        for number in range(struct.unpack(">Q", start)[0], len(buffer)):
            replay.send_multipart([client, b"", topic, struct.pack(">Q", number), buffer[number]])
        replay.send_multipart([client, b"", b"", b"\xff" * 8, b""])
    if sys.stdin.fileno() in ready:
        command = sys.stdin.buffer.raw.readline().strip()
        if not command:
            break
        number = len(buffer)
        buffer.append(batch(number))
        if command == b"live":
            publisher.send_multipart([topic, struct.pack(">Q", number), buffer[number]])
