-- purpose: which engine stands on which GPU, how that is known, and when it was last seen to be so.
-- parameters: as_of (UTC), look_back (seconds).
-- grain: engine target + replica ('' for all) + GPU or MIG instance + way of knowing.
SELECT target, replica, gpu_uuid, mig_instance, source, first_seen, least(last_seen, $as_of::TIMESTAMP) AS last_seen
FROM engine_gpu
WHERE first_seen <= $as_of AND last_seen > $as_of - to_seconds($look_back)
ORDER BY target, replica, gpu_uuid, mig_instance, source
