{# What if: the last scenarios, the back-test behind them, and what findings and actions are worth. #}
-- question: scenarios
-- title: The last scenarios
-- order: cluster_id, simulated_at, scenario
-- about: Of each cluster the last gpulake whatif. The first is the simulated past that the others are compared with.
--     Arrivals do not react: with shorter queues people would submit more.
WITH known AS (
    SELECT *, arg_max(run_id, simulated_at) OVER (PARTITION BY cluster_id) AS last_run_id FROM sim_runs WHERE {cluster}
)
SELECT cluster_id, scenario, policy, p50_wait_seconds, p90_wait_seconds, p99_wait_seconds, p90_error_seconds,
    utilisation_ratio, queue_mean, held_gpu_hours, lost_gpu_hours, fragmented_ratio, energy_kwh, cost, runs, unstarted,
    is_believed, CAST(changes AS VARCHAR) AS changes, begin_at, end_at, simulated_at, run_id
FROM known WHERE run_id = last_run_id

-- question: backtests
-- title: Whether the simulation can be believed
-- order: cluster_id, tested_at, runs_of
-- about: The last back-test of each cluster, fitted on the first 60 % of the time and scored on the rest. Not believed:
--     a guess is closer to the recorded waits.
WITH known AS (
    SELECT *, arg_max(run_id, tested_at) OVER (PARTITION BY cluster_id) AS last_run_id FROM sim_backtest WHERE {cluster}
)
SELECT cluster_id, concat_ws(' ', "grouping", "group") AS runs_of, runs, policy, is_believed,
    CAST(recorded_wait_seconds ->> 0 AS DOUBLE) AS p50_wait_seconds,
    CAST(simulated_wait_seconds ->> 0 AS DOUBLE) AS p50_simulated_seconds,
    CAST(recorded_wait_seconds ->> 1 AS DOUBLE) AS p90_wait_seconds,
    CAST(simulated_wait_seconds ->> 1 AS DOUBLE) AS p90_simulated_seconds,
    CAST(distances_seconds ->> 'simulated' AS DOUBLE) AS off_seconds,
    CAST(distances_seconds ->> 'no wait' AS DOUBLE) AS no_wait_off_seconds,
    CAST(distances_seconds ->> 'last week by size' AS DOUBLE) AS last_week_off_seconds,
    CAST(distances_seconds ->> 'best constant' AS DOUBLE) AS constant_off_seconds,
    CAST(refusals ->> 0 AS VARCHAR) AS refusal, tested_at
FROM known WHERE run_id = last_run_id

-- question: prices
-- title: What findings, incidents and actions are worth
-- order: saved_gpu_hours DESC NULLS LAST, subject_id
-- about: The past simulated once more without each of them; of an action, as if it had not been taken. They do not add
--     up: two may concern the same runs.
WITH latest AS (SELECT *, max(priced_at) OVER (PARTITION BY cluster_id) AS last_at FROM sim_prices WHERE {cluster})
SELECT words, saved_gpu_hours, "of", kind, subject, p90_before_seconds, p90_after_seconds, p90_error_seconds, cluster_id,
    priced_at, CASE WHEN "of" = 'incident' THEN subject_id END AS incident_id, subject_id
FROM latest WHERE priced_at = last_at

-- question: incident_price
-- title: What an incident is worth
-- order: priced_at DESC
-- options: incident
-- about: The past simulated once more without it.
WITH priced AS (
    SELECT *, row_number() OVER (ORDER BY priced_at DESC) AS number FROM sim_prices
    WHERE "of" = 'incident' AND subject_id = getvariable('incident')
)
SELECT words AS headline, concat_ws(' ', 'simulated at', strftime(priced_at, '%Y-%m-%d %H:%M UTC')) AS detail,
    CASE WHEN saved_gpu_hours > 0 THEN 'warning' ELSE 'info' END AS level, saved_gpu_hours, p90_before_seconds,
    p90_after_seconds, p90_error_seconds, reason, priced_at
FROM priced WHERE number = 1
