"""What open files look like on every rank: age, permissions, attributes, what may be done with them."""
import logging.handlers
import os
import time

import torch

model = torch.nn.Linear(4, 2)


def train():
    model(torch.randn(8, 4)).sum().backward()


def mode_of(name):
    return oct(os.stat(name).st_mode & 0o7777)


def refused(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return error.strerror


def continue_old_log():
    with open("run.log", "w") as log:
        log.write("old\n")
    os.utime("run.log", (time.time() - 2 * 86400,) * 2)
    handler = logging.handlers.TimedRotatingFileHandler("run.log", when="midnight")
    logger = logging.getLogger("run")
    logger.addHandler(handler)
    logger.warning("today's")
    train()
    handler.close()
    rotated = [name for name in sorted(os.listdir()) if name.startswith("run.log.")]
    print("rotated", len(rotated), open("run.log").read(), open(rotated[0]).read())
    os.rename(rotated[0], "run.old")


def look_at_ages():
    open("aged", "w").close()
    os.utime("aged", (1e9, 1e9))
    for mode in "a", "r+":
        with open("aged", mode) as file:
            print(mode, os.stat("aged").st_mtime, os.fstat(file.fileno()).st_mtime)
    with open("aged", "w"):
        print("w", os.stat("aged").st_mtime > 1e9)


def look_at_permissions():
    for mode in "w", "a", "r+", "w":
        with open("plain", mode) as file:
            print(mode, mode_of("plain"), oct(os.fstat(file.fileno()).st_mode))
        os.chmod("plain", 0o640)
    os.umask(0o027)
    with open("strict", "x"):
        print("strict", mode_of("strict"))
    os.umask(0o022)
    closed = os.open("closed", os.O_WRONLY | os.O_CREAT, 0)
    os.write(closed, b"x")
    print("closed", mode_of("closed"))
    os.close(closed)
    os.chmod("closed", 0o644)


def look_at_attributes():
    open("tagged", "w").close()
    os.setxattr("tagged", "user.tag", b"v")
    for mode in "a", "w":
        with open("tagged", mode) as file:
            print(mode, os.getxattr("tagged", "user.tag"), os.listxattr(file.fileno()))
            print(os.getxattr("tagged", "user.tag", follow_symlinks=False), os.listxattr("tagged", follow_symlinks=False))
    print(refused(lambda: os.setxattr("tagged", "user.once", b"1", os.XATTR_CREATE, follow_symlinks=False)))
    train()
    reader = os.open("tagged", os.O_RDONLY)
    print(refused(os.setxattr, reader, "user.second", b"2", os.XATTR_CREATE))
    train()
    print(refused(os.removexattr, reader, "user.tag"))
    train()
    os.close(reader)
    print(refused(lambda: os.removexattr("tagged", "user.once", follow_symlinks=False)), os.listxattr("tagged"))


def read_what_is_for_writing():
    for flags in 0, os.O_APPEND, os.O_TRUNC:
        file = os.open("written", os.O_WRONLY | os.O_CREAT | flags)
        print(flags, refused(os.read, file, 1), refused(os.write, file, b"text"), open("written").read())
        os.close(file)
    file = os.open("read", os.O_RDONLY | os.O_CREAT)
    print(refused(os.write, file, b"text"))
    os.close(file)


train()
continue_old_log()
look_at_ages()
look_at_permissions()
look_at_attributes()
read_what_is_for_writing()
train()
