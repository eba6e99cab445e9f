"""`python -m memplane`."""

from memplane.cli import main

raise SystemExit(main())
