-- purpose: placements that were seen again
-- parameters: targets, gpu_uuids, mig_instances, sources (lists that run in parallel), since, now
UPDATE engine_gpu SET last_seen = $now
FROM (
  SELECT unnest($targets::VARCHAR[]) AS target, unnest($gpu_uuids::VARCHAR[]) AS gpu_uuid,
         unnest($mig_instances::VARCHAR[]) AS mig_instance, unnest($sources::VARCHAR[]) AS source
) AS seen
WHERE engine_gpu.target = seen.target AND engine_gpu.gpu_uuid = seen.gpu_uuid
  AND engine_gpu.mig_instance = seen.mig_instance AND engine_gpu.source = seen.source
  AND engine_gpu.last_seen >= $since
