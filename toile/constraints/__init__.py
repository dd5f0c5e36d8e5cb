"""What a particle may not do: each constraint fills S, and the targets of the directions it holds."""
