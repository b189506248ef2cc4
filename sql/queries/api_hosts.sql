-- purpose: the newest facts of every host that some node_exporter tells of
-- parameters: since (UTC; older samples are not looked at), host (NULL: all)
-- grain: target + host. Counters are raw: their increases give the busy share (busy ÷ all seconds).
SELECT s.*
FROM host_sample s JOIN target t USING (target)
WHERE s.ts >= $since AND t.gone_at IS NULL AND ($host::VARCHAR IS NULL OR s.host = $host)
QUALIFY row_number() OVER (PARTITION BY s.target, s.host ORDER BY s.ts DESC) = 1
ORDER BY s.target, s.host
