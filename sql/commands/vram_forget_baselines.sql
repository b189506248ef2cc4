-- purpose: remove remembered levels; the new ones are appended in the same transaction
-- parameters: gpu_uuids, mig_instances (lists that run in parallel)
DELETE FROM vram_baseline
WHERE (gpu_uuid, mig_instance) IN (SELECT (unnest($gpu_uuids::VARCHAR[]), unnest($mig_instances::VARCHAR[])))
