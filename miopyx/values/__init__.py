"""What everything rests on: settings, logs, C types and small helpers; imports nothing above."""
