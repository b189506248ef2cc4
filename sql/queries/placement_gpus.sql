-- purpose: the GPUs seen of late, and what they say of host, place and pods
-- parameters: since, now
-- grain: GPU or MIG instance
SELECT gpu_uuid, mig_instance, arg_max(host, ts) AS host, arg_max(gpu_index, ts) AS gpu_index,
       arg_max(pod, ts) AS pods, arg_max(namespace, ts) AS namespaces, arg_max(target, ts) AS target
FROM gpu_sample
WHERE ts > $since AND ts <= $now
GROUP BY gpu_uuid, mig_instance
