"""Which keys tell fieldmark's own task files from lmms-eval's?

Written out, since sorting two thousand files by their keys must not wait for the schemas; tests
hold the lists to them.
"""

from __future__ import annotations

_OWN = """
about also ask data dataset kinds label metric n_test n_train options parts primary probe retrieve
sampling score shots test title train traits unit variants version where groups zero_shot
"""
_THEIRS = """
aggregate_metric_list auto_strip_thinking batch_size class cluster_key dataset_kwargs dataset_name
dataset_path description doc_to_audio doc_to_choice doc_to_decontamination_query doc_to_messages
doc_to_target doc_to_text doc_to_visual fewshot_config fewshot_delimiter fewshot_split filter_list
full_docs generation_kwargs group group_alias include lmms_eval_specific_kwargs metadata metric_list
model_specific_generation_kwargs model_specific_target_kwargs num_fewshot output_type process_docs
process_results process_results_use_image reasoning_tags score_key should_decontaminate tag
target_delimiter task_alias test_split training_split use_prompt validation_split
"""
OWN_KEYS = frozenset(_OWN.split())
"""keys of fieldmark's own files that lmms-eval does not know"""
THEIR_KEYS = frozenset(_THEIRS.split())
"""keys of lmms-eval's files that fieldmark's own do not have"""
