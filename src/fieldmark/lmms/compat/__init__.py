"""What task code finds under the name `lmms_eval`.

Only the modules and names that public task files import, written for fieldmark from how they are
called. Nothing outside such code sees them as `lmms_eval` (see `code.imports`). Helpers of
`lmms_eval.tasks` come from the folders the user named; where those hold none, or one that needs a
package which is not installed, from here. What would change a score when it is not the very same
text or table is not offered: the message then asks for lmms-eval's tasks folder.
"""

from __future__ import annotations

_HELPERS, _JUDGE, _VERIFIERS = (
    f"fieldmark.lmms.compat.{name}" for name in ("helpers", "judge", "verifiers")
)
_FILTERS = "fieldmark.lmms.score.filters"
_BASE = "Filter=ResponseFilter"
_REGEX = "RegexFilter ExtendedRegexFilter MultiChoiceRegexFilter SimpleMultiChoiceRegexFilter"
_PROTOCOL = "Request=JudgeRequest Response=JudgeResponse ServerConfig"
MODULES = {
    "api.filter": (_FILTERS, _BASE),
    "api.metrics": (_HELPERS, "anls levenshtein_distance"),
    "api.reasoning": (_FILTERS, "strip_reasoning_tags=strip_reasoning"),
    "filters": (_FILTERS, _BASE),
    "filters.extraction": (_FILTERS, f"{_BASE} {_REGEX} WhitespaceFilter"),
    "filters.selection": (_FILTERS, f"{_BASE} MajorityVoteFilter TakeFirstFilter TakeKFilter"),
    "filters.transformation": (
        _FILTERS,
        f"{_BASE} LowercaseFilter MapFilter StripThinkingFilter UppercaseFilter",
    ),
    "llm_judge": (_JUDGE, f"{_PROTOCOL} ServerInterface get_server"),
    "llm_judge.protocol": (_JUDGE, _PROTOCOL),
    "loggers.evaluation_tracker": (_HELPERS, "GeneralConfigTracker"),
    "tasks._task_utils.default_template_yaml": (_HELPERS, "load_default_template_yaml"),
    "tasks._task_utils.file_utils": (_HELPERS, "generate_submission_file"),
    "tasks._task_utils.mmmu_mcq_utils": (
        _HELPERS,
        "get_multi_choice_info parse_mmmu_multi_choice_response",
    ),
    "tasks._task_utils.point_format": (_HELPERS, "parse_point2d"),
    "tasks._task_utils.video_loader": (_HELPERS, "get_cache_dir get_video"),
    "utils": (_HELPERS, "eval_logger resolve_cache_dir sanitize_model_name"),
    "verifiers": (_VERIFIERS, "Extractor VerificationPipeline Verifier VerifyResult"),
    "verifiers.extractors": (_VERIFIERS, "StripReasoningExtractor"),
    "verifiers.openai": (_VERIFIERS, "OpenAIVerifier"),
}
"""module below `lmms_eval` → where its names are, and the names (`theirs=ours` if they differ)"""

NOT_RUN = {"tasks.asr_wer_utils": "scores transcripts of speech: fieldmark does not run it."}
"""module below `lmms_eval` → why code that imports it is refused, wherever the module lies"""
