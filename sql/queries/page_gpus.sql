-- purpose: the newest sample of every GPU and MIG instance: tiles and the fleet table.
-- parameters: as_of (UTC), look_back (seconds), project and environment (NULL: all).
-- With a project: GPUs of its own targets and those its engines use, as configured or as found.
-- grain: GPU or MIG instance.
WITH chosen AS (
  SELECT target, gpus FROM target
  WHERE ($project IS NULL OR project = $project) AND ($environment IS NULL OR environment = $environment)
), named AS (
  SELECT DISTINCT unnest(gpus) AS gpu FROM chosen WHERE gpus IS NOT NULL
), found AS (
  SELECT DISTINCT gpu_uuid, mig_instance
  FROM engine_gpu SEMI JOIN chosen USING (target)
  WHERE first_seen <= $as_of AND last_seen > $as_of - to_seconds($look_back)
), newest AS (
  SELECT gpu_uuid, mig_instance, max(ts) AS ts
  FROM gpu_sample
  WHERE ts > $as_of - to_seconds($look_back) AND ts <= $as_of
  GROUP BY gpu_uuid, mig_instance
)
SELECT
  s.ts, s.target, s.gpu_uuid, s.mig_instance, s.gpu_index, s.host, s.gpu_model, s.utilization_ratio,
  s.graphics_active_ratio, s.sm_active_ratio, s.memory_used_bytes, s.memory_free_bytes,
  s.memory_reserved_bytes, s.memory_total_bytes, s.memory_used_ratio, s.temperature_celsius, s.power_watts,
  s.power_limit_watts, s.throttle_reasons, s.xid_last, s.pod, s.namespace,
  t.interval_seconds, t.project, t.environment
FROM gpu_sample AS s
SEMI JOIN newest AS n
  ON s.gpu_uuid = n.gpu_uuid AND s.mig_instance = n.mig_instance AND s.ts = n.ts
LEFT JOIN target AS t USING (target)
WHERE s.ts > $as_of - to_seconds($look_back) AND s.ts <= $as_of
  AND (
    ($project IS NULL AND $environment IS NULL)
    OR s.target IN (SELECT target FROM chosen)
    OR s.gpu_uuid IN (SELECT gpu FROM named)
    OR s.host || '/' || s.gpu_index IN (SELECT gpu FROM named)
    OR EXISTS (FROM found AS f WHERE f.gpu_uuid = s.gpu_uuid AND f.mig_instance IN (s.mig_instance, ''))
  )
QUALIFY row_number() OVER (PARTITION BY s.gpu_uuid, s.mig_instance ORDER BY s.target) = 1
ORDER BY s.host, s.gpu_index, s.mig_instance
