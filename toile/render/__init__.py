"""Pictures of cloth and solids: camera, ray-tracer, PNG, films through ffmpeg."""
