"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell that starts tests in the background has them ignore interrupts, and so would the processes that they interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
