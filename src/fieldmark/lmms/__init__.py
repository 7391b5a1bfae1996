"""Tasks in lmms-eval's format: read, trusted code, documents, prompts, scores, checks, export.

reader.py     task reader: which tasks do a file, a folder and a name mean
documents.py  protocol: how a language model is asked such a task
run.py        asking, scoring and the cost of all documents of a task
report.py     report provider: comparing runs, groups of tasks
export.py     lmms-eval's own results files
read/         YAML files: includes, schema, index of folders, groups and tags
code/         code behind `!function`: where it may come from, how it is imported, called, hashed
data/         documents of a dataset and their pictures
ask/          prompts, few-shot examples, requests
score/        filters of responses, values of documents, scores with intervals
metrics/      metrics of one document, aggregations over all
check/        what is wrong with task files, for `fieldmark check`
compat/       what task code finds under the name `lmms_eval`

The rest of the package finds reader, protocol, provider and export in its registry. Nothing is
imported, fetched or run before somebody asks for it.
"""
