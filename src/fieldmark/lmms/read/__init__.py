"""YAML files of lmms-eval: includes, schema, index of folders, groups and tags."""
