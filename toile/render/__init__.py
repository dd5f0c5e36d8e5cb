"""Pictures of cloth and solids: camera, framing, ray tracer, PNG, films through ffmpeg."""
