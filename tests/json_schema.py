"""What the tests of JSON Schemas share: a report fits its schema, and every key of it is needed."""
import copy
import json
import sys
from pathlib import Path

try:
    import jsonschema
except ImportError:
    print("jsonschema is not installed (Debian package python3-jsonschema)")
    sys.exit(77)  # meson: skipped

ROOT = Path(__file__).resolve().parent.parent


def load(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


class Schema:
    def __init__(self, path):
        self.validator = jsonschema.Draft7Validator(load(path))

    def check(self):
        self.validator.check_schema(self.validator.schema)

    def findings(self, report):
        return [f"{'/'.join(map(str, e.path))}: {e.message}" for e in self.validator.iter_errors(report)]

    def changed(self, sample, path, change):
        """Findings in a copy of the sample in which `change` has altered the object at `path`."""
        report = copy.deepcopy(sample)
        change(at(report, path))
        return self.findings(report)


def at(value, path):
    for part in path:
        value = value[part]
    return value


def objects(value, free=(), path=()):
    """Paths to all objects whose keys the schema names: those under the names in `free` are free."""
    if isinstance(value, dict):
        if path and path[-1] in free:
            return
        yield path
        for key, inner in value.items():
            yield from objects(inner, free, path + (key,))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from objects(inner, free, path + (index,))


def expect_every_key_counts(test, schema, sample, free=()):
    """No key of the sample may be missing, and none may be added, in any object of it."""
    for path in objects(sample, free):
        for key in at(sample, path):
            test.assertTrue(schema.changed(sample, path, lambda o, k=key: o.pop(k)), (path, key))
        test.assertTrue(schema.changed(sample, path, lambda o: o.update(surprise=1)), path)
