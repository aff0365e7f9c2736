"""`python -m fl_audit`, the same as the command `fl-audit`."""

import sys

from fl_audit.cli import main

sys.exit(main())
