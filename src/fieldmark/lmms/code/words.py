"""Which package must be installed when an import fails?"""

from __future__ import annotations

INSTALLED_AS = {
    "Levenshtein": "levenshtein",
    "PIL": "pillow",
    "azure": "azure-identity",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dotenv": "python-dotenv",
    "google": "google-genai",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""names that are imported → what they are called where one installs them, if that differs"""
OF_EXTRA = {"datasets": "hub", "loguru": "hub", "sacrebleu": "hub", "torch": "vision"}


def missing_package(error: ModuleNotFoundError) -> str:
    """`needs the package 'x', …`; "" when the error is not about a package that can be had."""
    name = (error.name or "").partition(".")[0]
    if not name or name in ("lmms_eval", "fieldmark") or not str(error).startswith("No module"):
        return ""
    install = INSTALLED_AS.get(name, name)
    if name in OF_EXTRA:
        install = f"'fieldmark[{OF_EXTRA[name]}]'"
    return f"needs the package {name!r}, which is not installed: `pip install {install}`"
