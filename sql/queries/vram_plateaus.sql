-- purpose: the median memory in use of each GPU over a window of its own
-- parameters: gpu_uuids, mig_instances, begins, ends (lists that run in parallel), earliest, latest (over all)
-- grain: element of the lists with a sample in its window
WITH wanted AS (
  SELECT unnest($gpu_uuids::VARCHAR[]) AS gpu_uuid, unnest($mig_instances::VARCHAR[]) AS mig_instance,
         unnest($begins::TIMESTAMP[]) AS begins, unnest($ends::TIMESTAMP[]) AS ends
)
SELECT gpu_uuid, mig_instance, median(s.memory_used_bytes) AS used_bytes,
       median(s.memory_used_ratio) AS used_ratio, count(s.memory_used_bytes) AS samples
FROM gpu_sample s JOIN wanted w USING (gpu_uuid, mig_instance)
WHERE s.ts >= $earliest AND s.ts <= $latest AND s.ts >= w.begins AND s.ts <= w.ends
GROUP BY gpu_uuid, mig_instance
