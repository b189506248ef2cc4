-- purpose: the remembered levels of memory after warm-up
-- grain: GPU or MIG instance
SELECT gpu_uuid, mig_instance, engines, since, baseline_bytes, learned_at FROM vram_baseline
