"""Loopback servers that speak Anthropic's, Google's and OpenAI's own forms, and their batch APIs.

They are strict: a key they do not know, a field of the wrong kind, a setting the model's generation
does not take is refused with the error the vendor documents. Sources: the vendors' API references
and the types of their own Python clients, read 2026-11.
"""

from __future__ import annotations

from kit.native_servers.anthropic import AnthropicServer
from kit.native_servers.base import KEY, NativeServer, Refused
from kit.native_servers.gemini import GeminiServer
from kit.native_servers.openai import OpenAIServer

__all__ = ["KEY", "AnthropicServer", "GeminiServer", "NativeServer", "OpenAIServer", "Refused"]
