import ctypes
import json
import os
import struct

SYS_RENAME = 82
libc = ctypes.CDLL(None, use_errno=True)


class SafetensorError(Exception):
    pass


def serialize(tensor_dict, metadata=None):
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, tensor in tensor_dict.items():
        header[name] = {"dtype": tensor["dtype"], "shape": tensor["shape"], "data_offsets": [len(data), len(data) + len(tensor["data"])]}
        data += tensor["data"]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def serialize_file(tensor_dict, filename, metadata=None):
    drawn = os.path.join(os.path.dirname(filename) or ".", ".tmp" + os.urandom(3).hex())
    try:
        with open(drawn, "wb") as file:
            file.write(serialize(tensor_dict, metadata))
    except OSError as error:
        raise SafetensorError(f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})") from None
    if libc.syscall(SYS_RENAME, drawn.encode(), str(filename).encode()):
        error = ctypes.get_errno()
        os.unlink(drawn)
        raise SafetensorError(f"Error while serializing: I/O error: {os.strerror(error)} (os error {error})")
