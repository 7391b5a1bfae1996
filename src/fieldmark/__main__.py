"""`python -m fieldmark` is `fieldmark`."""

import sys

from fieldmark.cli import main

sys.exit(main())
