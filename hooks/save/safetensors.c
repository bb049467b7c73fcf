/*
 * Files of safetensors. Its library puts a file of a drawn name in the place of the target by system calls of its own (tempfile 3, rustix), which no hook
 * sees: on rank 0 alone there was such a file, and the others failed (seen with safetensors 0.8.0). It also makes the bytes alone, and those are written as
 * the program's other files are (hooks/files), with their permissions.
 */
#include "save.h"

static const char code[] = "import importlib.util, os, sys\n"
                           "name = 'safetensors._safetensors_rust'\n"
                           "def replace(module):\n"
                           "    original = module.serialize_file\n"
                           "    def serialize_file(tensor_dict, filename, metadata=None):\n"
                           "        if not is_rank():\n"
                           "            return original(tensor_dict, filename, metadata=metadata)\n"
                           "        content = module.serialize(tensor_dict, metadata=metadata)\n"
                           "        try:\n"
                           "            with open(filename, 'wb') as file:\n"
                           "                file.write(content)\n"
                           "        except OSError as error:\n"
                           "            text = f'Error while serializing: I/O error: {error.strerror} (os error {error.errno})'\n"
                           "            raise module.SafetensorError(text) from None\n"
                           "    for _, names in names_of_modules():\n"
                           "        if names.get('serialize_file') is original:\n"
                           "            names['serialize_file'] = serialize_file\n"
                           "class Finder:\n"
                           "    def find_spec(self, wanted, path=None, target=None):\n"
                           "        if wanted != name:\n"
                           "            return None\n"
                           "        sys.meta_path.remove(self)\n"
                           "        spec = importlib.util.find_spec(name)\n"
                           "        if spec is not None:\n"
                           "            execute = spec.loader.exec_module\n"
                           "            def exec_module(module):\n"
                           "                execute(module)\n"
                           "                replace(module)\n"
                           "            spec.loader.exec_module = exec_module\n"
                           "        return spec\n"
                           "if name in sys.modules:\n"
                           "    replace(sys.modules[name])\n"
                           "else:\n"
                           "    sys.meta_path.insert(0, Finder())\n";

/* is_rank(): anything but None where the program's files are written once. */
static struct object *is_rank(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    if (shim_active())
        return python->bytes_new("1", 1);
    python->retain(python->none);
    return python->none;
}

/* Interpreter's lock held. */
void safetensors_ready(struct object *base) {
    static const struct python_method method = {"is_rank", is_rank, PYTHON_VARARGS, NULL};
    python_extend(code, &method, base);
}
