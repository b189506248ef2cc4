-- purpose: how many messages stand in each state, for /metrics
-- grain: state
SELECT state, count(*) AS messages FROM outbox GROUP BY state ORDER BY state
