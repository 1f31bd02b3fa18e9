"""Publishers as the engines build them: msgspec for the events, pyzmq for the
socket. The test writes one JSON command a line and reads one JSON answer.

The structs copy the field order, defaults and options of vLLM's and SGLang's
own, so that msgspec decides what the bytes are, as it does in the engines.
A replay socket is a ROUTER on a thread of its own, as the engines serve it. The
live socket is an XPUB, which is a PUB on the wire, because it can be asked
whether somebody has subscribed. It binds, or connects to a server that does.
"""

import json
import sys
import threading
from typing import Any, Optional, Union

import msgspec
import zmq
from zmq.auth.thread import ThreadAuthenticator

Hash = Union[int, bytes]


# vLLM 0.17 to 0.19: arrays, extra_keys last.
class VLLMArrayEvent(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    pass


class VLLMArrayStored(VLLMArrayEvent, tag="BlockStored"):
    block_hashes: list[Hash]
    parent_block_hash: Optional[Hash]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str]
    extra_keys: Optional[list[Any]] = None


class VLLMArrayRemoved(VLLMArrayEvent, tag="BlockRemoved"):
    block_hashes: list[Hash]
    medium: Optional[str]


class VLLMArrayCleared(VLLMArrayEvent, tag="AllBlocksCleared"):
    pass


# vLLM 0.30: maps, defaults left out.
class VLLMMapEvent(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    pass


class VLLMMapStored(VLLMMapEvent, tag="BlockStored"):
    block_hashes: list[Hash]
    parent_block_hash: Optional[Hash]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str]
    extra_keys: Optional[list[Any]] = None
    group_idx: Optional[int] = None
    kv_cache_spec_kind: Optional[str] = None
    kv_cache_spec_sliding_window: Optional[int] = None
    locality: Optional[str] = None
    ownership: Optional[str] = None
    session_id: Optional[str] = None


class VLLMMapRemoved(VLLMMapEvent, tag="BlockRemoved"):
    block_hashes: list[Hash]
    medium: Optional[str]
    group_idx: Optional[int] = None
    locality: Optional[str] = None
    ownership: Optional[str] = None


class VLLMMapCleared(VLLMMapEvent, tag="AllBlocksCleared"):
    pass


# SGLang 0.5.9 to 0.5.17: arrays with a medium, signed hashes.
class SGLangArrayEvent(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    pass


class SGLangArrayStored(SGLangArrayEvent, tag="BlockStored"):
    block_hashes: list[int]
    parent_block_hash: Optional[int]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str] = None


class SGLangArrayRemoved(SGLangArrayEvent, tag="BlockRemoved"):
    block_hashes: list[int]
    medium: Optional[str] = None


class SGLangArrayCleared(SGLangArrayEvent, tag="AllBlocksCleared"):
    pass


# SGLang 0.5.20 and later: maps; salt and adapter at the top level.
class SGLangMapEvent(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    pass


class SGLangMapStored(SGLangMapEvent, tag="BlockStored"):
    block_hashes: list[int]
    parent_block_hash: Optional[int]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str] = None
    cache_salt: Optional[str] = None
    session_id: Optional[str] = None
    lora_name: Optional[str] = None


class SGLangMapRemoved(SGLangMapEvent, tag="BlockRemoved"):
    block_hashes: list[int]
    medium: Optional[str] = None


class SGLangMapCleared(SGLangMapEvent, tag="AllBlocksCleared"):
    pass


class Batch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None


DIALECTS = {
    "vllm-array": (VLLMArrayStored, VLLMArrayRemoved, VLLMArrayCleared),
    "vllm-map": (VLLMMapStored, VLLMMapRemoved, VLLMMapCleared),
    "sglang-array": (SGLangArrayStored, SGLangArrayRemoved, SGLangArrayCleared),
    "sglang-map": (SGLangMapStored, SGLangMapRemoved, SGLangMapCleared),
}


def block_hash(value):
    """JSON has no bytes: hex digits stand for them."""
    return bytes.fromhex(value) if isinstance(value, str) else value


def event(dialect, spec):
    stored, removed, cleared = DIALECTS[dialect]
    kind = spec.pop("event")
    if kind == "clear":
        return cleared()
    spec["block_hashes"] = [block_hash(h) for h in spec["block_hashes"]]
    if kind == "remove":
        spec.setdefault("medium", "GPU")
        return removed(**spec)
    spec["parent_block_hash"] = block_hash(spec.get("parent_block_hash"))
    spec.setdefault("lora_id", None)
    spec.setdefault("medium", "GPU")
    if dialect.startswith("vllm"):
        spec.setdefault("lora_name", None)
    return stored(**spec)


class Replay(threading.Thread):
    """A replay socket as the engines have it: a ROUTER that answers [identity,
    empty, start] with the batches it keeps, and an end marker."""

    END = (-1).to_bytes(8, "big", signed=True)

    def __init__(self, context, topics):
        super().__init__(daemon=True)
        self.topics = topics  # replies name the topic: vLLM 0.26, SGLang 0.5.22
        self.batches = []
        self.asked = 0
        self.stopped = False
        self.socket = context.socket(zmq.ROUTER)
        self.socket.bind("tcp://127.0.0.1:*")
        self.endpoint = self.socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")

    def run(self):
        while not self.stopped:
            if not self.socket.poll(50):
                continue
            identity, empty, start = self.socket.recv_multipart()
            self.asked += 1
            for topic, seq, payload in list(self.batches):
                if seq >= int.from_bytes(start, "big"):
                    self.reply(identity, topic, seq.to_bytes(8, "big"), payload)
            self.reply(identity, b"", self.END, b"")
        self.socket.close(linger=0)

    def reply(self, identity, topic, seq, payload):
        head = (identity, b"", topic) if self.topics else (identity, b"")
        self.socket.send_multipart((*head, seq, payload))


def main():
    context = zmq.Context()
    sockets = {}
    replays = {}
    users = None
    encoder = msgspec.msgpack.Encoder()
    for line in sys.stdin:
        command = json.loads(line)
        op, name = command["op"], command["name"]
        answer = {"ok": True}
        if op == "bind":
            socket = context.socket(zmq.XPUB)
            socket.setsockopt(zmq.SNDHWM, 0)
            socket.bind("tcp://127.0.0.1:*")
            sockets[name] = socket
            answer["endpoint"] = socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
        elif op == "connect":
            # As vLLM's publisher does for every endpoint that names a host.
            socket = context.socket(zmq.XPUB)
            socket.setsockopt(zmq.SNDHWM, 0)
            socket.setsockopt(zmq.RECONNECT_IVL, 10)
            if "user" in command:
                socket.plain_username = command["user"].encode()
                socket.plain_password = command["password"].encode()
            if "heartbeat_ms" in command:
                socket.setsockopt(zmq.HEARTBEAT_IVL, command["heartbeat_ms"])
                socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 20 * command["heartbeat_ms"])
            socket.connect(command["endpoint"])
            sockets[name] = socket
        elif op == "bind-plain":
            if users is None:
                users = ThreadAuthenticator(context)
                users.start()
            users.configure_plain(domain="*", passwords={command["user"]: command["password"]})
            socket = context.socket(zmq.XPUB)
            socket.setsockopt(zmq.SNDHWM, 0)
            socket.plain_server = True
            socket.bind("tcp://127.0.0.1:*")
            sockets[name] = socket
            answer["endpoint"] = socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
        elif op == "replay":
            replays[name] = Replay(context, command["topics"])
            replays[name].start()
            answer["endpoint"] = replays[name].endpoint
        elif op == "asked":
            answer["requests"] = replays[name].asked
        elif op == "close":
            sockets.pop(name).close(linger=0)
        elif op == "subscribed":
            message = sockets[name].recv()
            answer["topic"] = message[1:].decode()
            answer["ok"] = message[:1] == b"\x01"
        elif op == "send":
            events = [event(command["dialect"], e) for e in command["events"]]
            batch = Batch(ts=1757376000.5, events=events, data_parallel_rank=command.get("rank"))
            topic, payload = command.get("topic", "").encode(), encoder.encode(batch)
            if name in replays:
                replays[name].batches.append((topic, command["seq"], payload))
            if not command.get("lost"):
                sockets[name].send_multipart((topic, command["seq"].to_bytes(8, "big"), payload))
        else:
            answer = {"ok": False, "error": f"unknown op {op}"}
        print(json.dumps(answer), flush=True)
    if users is not None:
        users.stop()
    for replay in replays.values():
        replay.stopped = True
        replay.join()
    context.destroy(linger=0)


if __name__ == "__main__":
    main()
