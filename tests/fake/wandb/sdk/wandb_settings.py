import os


class Value:
    def __init__(self, value):
        self.value = value


class Told:
    def ListFields(self):  # noqa: N802, as protocol buffers call it
        return [(name, value) for name, value in vars(self).items()]


class Settings:
    def __init__(self, name):
        self.name = name
        self.wandb_dir = os.path.abspath("wandb") + "/"
        self.sync_dir = os.path.join(self.wandb_dir, "offline-run-" + name)
        self.files_dir = os.path.join(self.sync_dir, "files")
        self.log_user = os.path.join(self.sync_dir, "logs", "debug.log")

    def to_proto(self):
        told = Told()
        told.mode, told.x_offline = Value("offline"), Value(True)
        told.wandb_dir, told.files_dir = Value(self.wandb_dir), Value(self.files_dir)
        told.sync_file, told.log_internal = Value(os.path.join(self.sync_dir, "run.wandb")), Value(os.path.join(self.wandb_dir, "debug.log"))
        return told
