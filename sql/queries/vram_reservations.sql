-- purpose: which engines are on which GPU, and what they reserve of its memory
-- parameters: since (GPU samples), engines_since (engine samples), now
-- grain: GPU or MIG instance that has an engine or a configured reservation
-- An engine is placed by target.gpus (UUID, UUID/instance, MIG-UUID/instance/…, host/index), else by its pod, else
-- by its process; by what stands in engine_gpu, and, as soon as the samples are there, by the same names here.
-- reservation_ratio: the engine's own word, else as configured for it; summed over the engine targets on the
-- GPU; NULL when none is known. A GPU target's configured ratio stands for GPUs that no engine reserves.
-- all_known: no engine without a known reservation is beside them.
WITH replica AS (
  SELECT target, replica, max(engine) AS engine, arg_max(model, ts) AS model,
         arg_max(memory_reservation_ratio, ts) AS reservation_ratio,
         arg_max(kv_cache_used_ratio, ts) AS kv_cache_used_ratio,
         arg_max(process_start_time_seconds, ts) AS process_start
  FROM engine_sample
  WHERE ts > $engines_since AND ts <= $now AND role = 'engine'
  GROUP BY target, replica
), engine AS (  -- the replicas of one endpoint stand on different GPUs: each GPU has one's reservation
  SELECT target, max(engine) AS engine, min(model) AS model, max(reservation_ratio) AS reservation_ratio,
         max(kv_cache_used_ratio) AS kv_cache_used_ratio, max(process_start) AS process_start
  FROM replica GROUP BY target
), placed_engine AS (
  SELECT t.target, t.gpus, t.project, t.environment, json_extract_string(t.labels, '$.pod') AS pod,
         json_extract_string(t.labels, '$.namespace') AS namespace,
         coalesce(e.engine, nullif(coalesce(t.found_kind, t.kind), 'auto')) AS engine, e.model, e.process_start,
         e.kv_cache_used_ratio, coalesce(e.reservation_ratio, t.memory_reservation_ratio) AS reservation_ratio,
         e.reservation_ratio IS NOT NULL AS told
  FROM target t LEFT JOIN engine e USING (target)
  WHERE t.gone_at IS NULL AND coalesce(t.role, 'engine') = 'engine'
    AND (e.target IS NOT NULL OR t.memory_reservation_ratio IS NOT NULL)
), gpu AS (
  SELECT gpu_uuid, mig_instance, arg_max(host, ts) AS host, arg_max(gpu_index, ts) AS gpu_index,
         arg_max(pod, ts) AS pods, arg_max(namespace, ts) AS namespaces, arg_max(target, ts) AS gpu_target
  FROM gpu_sample
  WHERE ts > $since AND ts <= $now
  GROUP BY gpu_uuid, mig_instance
), gpu_name AS (
  SELECT gpu_uuid, mig_instance, unnest(
    CASE WHEN mig_instance = '' THEN [gpu_uuid, host || '/' || gpu_index]
    ELSE [gpu_uuid || '/' || mig_instance, host || '/' || gpu_index || '/' || mig_instance,
          'MIG-' || gpu_uuid || '/' || mig_instance || '/0'] END) AS name
  FROM gpu
), gpu_pod AS (
  SELECT gpu_uuid, mig_instance, namespaces, trim(unnest(string_split(pods, ','))) AS pod FROM gpu
), place AS (
  SELECT n.gpu_uuid, n.mig_instance, e.target
  FROM (SELECT target, unnest(gpus) AS name FROM placed_engine) e JOIN gpu_name n USING (name)
  UNION
  SELECT p.gpu_uuid, p.mig_instance, e.target
  FROM placed_engine e JOIN gpu_pod p ON p.pod = e.pod
  WHERE coalesce(len(e.gpus), 0) = 0
    AND (e.namespace IS NULL OR p.namespaces IS NULL OR list_contains(string_split(p.namespaces, ','), e.namespace))
  UNION
  SELECT k.gpu_uuid, k.mig_instance, k.target
  FROM engine_gpu k JOIN placed_engine e USING (target) SEMI JOIN gpu USING (gpu_uuid, mig_instance)
  WHERE k.last_seen > $engines_since AND k.first_seen <= $now
    AND k.source = CASE WHEN len(e.gpus) > 0 THEN 'config' WHEN e.pod IS NOT NULL THEN 'pod' ELSE 'process' END
), reserved AS (
  SELECT p.gpu_uuid, p.mig_instance, arg_max(e.engine, e.reservation_ratio) AS engine,
         arg_max(e.target, e.reservation_ratio) AS engine_target, arg_max(e.model, e.reservation_ratio) AS model,
         arg_max(e.project, e.reservation_ratio) AS project,
         arg_max(e.environment, e.reservation_ratio) AS environment,
         least(sum(e.reservation_ratio), 1.0) AS reservation_ratio,
         count(e.reservation_ratio) = count(*) AS all_known,
         CASE WHEN bool_or(e.told) THEN 'engine' ELSE 'config' END AS source,
         max(e.kv_cache_used_ratio) FILTER (e.reservation_ratio IS NOT NULL) AS kv_cache_used_ratio,
         list(e.target ORDER BY e.target) AS engine_targets,
         list(e.process_start ORDER BY e.target) AS process_starts
  FROM place p JOIN placed_engine e USING (target)
  GROUP BY p.gpu_uuid, p.mig_instance
  HAVING count(e.reservation_ratio) > 0
)
SELECT * FROM reserved
UNION ALL BY NAME
SELECT g.gpu_uuid, g.mig_instance, t.memory_reservation_ratio AS reservation_ratio, true AS all_known,
       'config' AS source, [t.target] AS engine_targets, [NULL::DOUBLE] AS process_starts
FROM gpu g JOIN target t ON t.target = g.gpu_target
WHERE t.memory_reservation_ratio IS NOT NULL AND t.gone_at IS NULL
  AND (g.gpu_uuid, g.mig_instance) NOT IN (SELECT (gpu_uuid, mig_instance) FROM reserved)
ORDER BY gpu_uuid, mig_instance
