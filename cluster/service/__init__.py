"""The standing service: workers that stay warm between jobs, keys that stay resident, and a queue on disk."""
