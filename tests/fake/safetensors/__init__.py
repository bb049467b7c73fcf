"""Stands for the package of that name: the same file, put in its place by a system call that no library sees."""
from ._safetensors_rust import SafetensorError, serialize, serialize_file  # noqa: F401
