"""`python -m kafkapy` is the command `kafkapy`."""

import sys

from kafkapy.cli.main import main

sys.exit(main())
