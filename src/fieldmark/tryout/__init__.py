"""Your own photos: which model tells them apart, how sure is that, and what does it confuse?"""

from __future__ import annotations
