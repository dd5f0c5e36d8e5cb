"""The viewer, a page in the browser that runs a scene live or plays back a finished run."""
