-- query: clusters
SELECT cluster_id FROM silver_clusters ORDER BY cluster_id

-- query: gpu_types
SELECT gpu_type FROM silver_gpu_types ORDER BY gpu_type

-- query: is_known
WITH names AS (
    SELECT user_id, coalesce(group_id, user_id) AS group_id, account_id FROM silver_jobs
    UNION ALL
    SELECT user_id, group_id, account_id FROM gold_job_efficiency_daily
)
SELECT EXISTS (
    FROM names
    WHERE user_id = getvariable('user') OR group_id = getvariable('group') OR account_id = getvariable('account')
) AS is_known

-- query: alike_user
-- The most similar names, of maybe thousands.
SELECT user_id AS name FROM silver_jobs WHERE user_id IS NOT NULL GROUP BY user_id
ORDER BY jaro_winkler_similarity(user_id, getvariable('user')) DESC, name LIMIT getvariable('most')

-- query: alike_group
SELECT group_id AS name FROM silver_jobs WHERE group_id IS NOT NULL GROUP BY group_id
ORDER BY jaro_winkler_similarity(group_id, getvariable('group')) DESC, name LIMIT getvariable('most')

-- query: alike_account
SELECT account_id AS name FROM silver_jobs WHERE account_id IS NOT NULL GROUP BY account_id
ORDER BY jaro_winkler_similarity(account_id, getvariable('account')) DESC, name LIMIT getvariable('most')

-- query: span
-- The days of the clusters that the card is about: what follows is put behind it.
-- The last days of each cluster: clusters may be observed at different times.
WITH ends AS (
    SELECT cluster_id, max(dt) AS last_dt FROM gold_ledger_daily GROUP BY cluster_id
),
span AS (
    SELECT days.cluster_id, days.dt, days.started_at, days.ended_at
    FROM silver_days AS days
    INNER JOIN ends USING (cluster_id)
    WHERE
        days.dt <= ends.last_dt
        AND (getvariable('days') IS NULL OR days.dt > ends.last_dt - getvariable('days')::INTEGER)
        AND (getvariable('from') IS NULL OR days.dt >= getvariable('from')::DATE)
        AND (getvariable('to') IS NULL OR days.dt <= getvariable('to')::DATE)
        AND (getvariable('cluster') IS NULL OR days.cluster_id = getvariable('cluster'))
),
bounds AS (
    SELECT cluster_id, min(started_at) AS from_at, max(ended_at) AS until_at FROM span GROUP BY cluster_id
)

-- query: spanned
SELECT list(DISTINCT cluster_id ORDER BY cluster_id) AS clusters, min(dt) AS first_dt, max(dt) AS last_dt FROM span

-- query: observed
-- A user or a group is of the clusters on which it held something.
SELECT * FROM ($observed)
SEMI JOIN (SELECT cluster_id FROM gold_ledger_daily SEMI JOIN span USING (cluster_id, dt) WHERE $whose)
USING (cluster_id)
ORDER BY cluster_id

-- query: cluster_days
-- By day and GPU type: all of the clusters' capacity. Busy is computed as in gold_energy_daily.
, ledger AS (
    SELECT cluster_id, dt, gpu_type, $capacity
    FROM gold_ledger_daily
    GROUP BY cluster_id, dt, gpu_type
)
SELECT
    ledger.dt, ledger.gpu_type, $ledger,
    sum(energy.busy_gpu_hours) AS busy
FROM ledger
SEMI JOIN span USING (cluster_id, dt)
INNER JOIN gold_energy_daily AS energy USING (cluster_id, dt, gpu_type)
GROUP BY ledger.dt, ledger.gpu_type
ORDER BY ledger.dt, ledger.gpu_type

-- query: holder_days
-- By day and GPU type: what a user or a group held, as the ledger has it. Attempts without a sensor are as busy as
-- gold_energy_daily assumes.
, usual AS (
    SELECT cluster_id, dt, any_value(assumed_busy_ratio) AS busy_ratio FROM gold_energy_daily GROUP BY cluster_id, dt
)
SELECT
    ledger.dt, ledger.gpu_type, $held,
    sum(used_gpu_hours + (lost_gpu_hours + unobserved_gpu_hours) * coalesce(usual.busy_ratio, 1)) AS busy
FROM gold_ledger_daily AS ledger
SEMI JOIN span USING (cluster_id, dt)
LEFT JOIN usual USING (cluster_id, dt)
WHERE $whose
GROUP BY ledger.dt, ledger.gpu_type
ORDER BY ledger.dt, ledger.gpu_type

-- query: users
-- Whoever held most idle GPU-hours comes first, then who lost most; and the user of the card. Jobs are counted for
-- these only.
, users AS (
    SELECT user_id, sum(capacity_gpu_hours) AS held, $held, $wasted
    FROM gold_ledger_daily
    SEMI JOIN span USING (cluster_id, dt)
    WHERE
        user_id IS NOT NULL AND (getvariable('group') IS NULL OR group_id = getvariable('group'))
        AND (getvariable('account') IS NULL OR account_id = getvariable('account'))
    GROUP BY user_id
    HAVING held > 0
),
shown AS (
    SELECT
        *, rank() OVER (ORDER BY idle DESC, wasted DESC) AS waste_rank, rank() OVER (ORDER BY held DESC) AS held_rank,
        count(*) OVER () AS users
    FROM users
    QUALIFY
        row_number() OVER (ORDER BY idle DESC, wasted DESC, user_id) <= getvariable('most')
        OR user_id = getvariable('user')
),
counted AS (
    SELECT
        user_id, count(DISTINCT job_key) AS jobs,
        count(DISTINCT CASE WHEN status IN ('failed', 'node_fail') THEN job_key END) AS failed_jobs
    FROM gold_job_efficiency_daily
    SEMI JOIN span USING (cluster_id, dt)
    SEMI JOIN shown USING (user_id)
    WHERE
        (getvariable('group') IS NULL OR group_id = getvariable('group'))
        AND (getvariable('account') IS NULL OR account_id = getvariable('account'))
    GROUP BY user_id
)
FROM shown
INNER JOIN counted USING (user_id)
ORDER BY idle DESC, wasted DESC, user_id

-- query: jobs_held
SELECT
    count(DISTINCT job_key) AS jobs,
    count(DISTINCT CASE WHEN status IN ('failed', 'node_fail') THEN job_key END) AS failed_jobs,
    count(DISTINCT user_id) AS users
FROM gold_job_efficiency_daily
SEMI JOIN span USING (cluster_id, dt)
WHERE $whose

-- query: jobs
-- As each job claims them: a job has no share in what others claimed of its GPUs.
SELECT
    any_value(job_id) AS job_id, any_value(user_id) AS user_id, cluster_id,
    CASE WHEN min(gpu_type) = max(gpu_type) THEN min(gpu_type) ELSE 'several' END AS gpu_type,
    any_value(status) AS status, min(dt) AS dt, sum(held_gpu_hours) AS held, $held, $wasted
FROM gold_job_efficiency_daily
SEMI JOIN span USING (cluster_id, dt)
WHERE $whose
GROUP BY cluster_id, job_key
HAVING wasted > 0
ORDER BY wasted DESC, job_id
LIMIT getvariable('most')

-- query: waits
-- From submission to the begin of the first instance. A clock that ran backwards tells no wait.
-- One list of both quantiles: each by itself would sort the waits again. A launch less its wait is the submission: all
-- tasks do without their jobs.
SELECT
    count(*) AS tasks, quantile_cont(tasks.launch_wait_seconds + tasks.start_wait_seconds, [0.5, 0.95]) AS quantiles,
    quantiles[1] AS p50, quantiles[2] AS p95
FROM silver_tasks AS tasks
INNER JOIN bounds ON tasks.cluster_id = bounds.cluster_id
WHERE
    tasks.requested_gpus > 0 AND tasks.launch_wait_seconds >= 0 AND tasks.start_wait_seconds >= 0
    AND epoch_us(tasks.launched_at) - round(1e6 * tasks.launch_wait_seconds) >= epoch_us(bounds.from_at)
    AND epoch_us(tasks.launched_at) - round(1e6 * tasks.launch_wait_seconds) < epoch_us(bounds.until_at)

-- query: waits_of_holder
-- Put behind the waits.
    AND tasks.job_key IN (
        SELECT job_key FROM silver_jobs
        WHERE
            (getvariable('user') IS NULL OR coalesce(user_id, 'unknown') = getvariable('user'))
            AND (getvariable('group') IS NULL OR coalesce(group_id, user_id, 'unknown') = getvariable('group'))
            AND (getvariable('account') IS NULL OR account_id = getvariable('account'))
    )

-- query: advice
-- What each attempt would have saved. A GPU-hour counts for one advice at most: idle ones for `release`, lost ones for
-- `stop` or `checkpoint`, under-used ones for whichever of the rest saves most.
, prices AS (
    SELECT unnest(
        from_json(getvariable('prices')::JSON, '[{"gpu_type": "VARCHAR", "price": "DOUBLE"}]'), recursive := true
    )
),
lesser AS (
    SELECT cluster_id, arg_max(gpu_type, gpus) AS lesser_type
    FROM (
        SELECT cluster_id, gpu_type, sum(gpus) AS gpus FROM silver_capacity
        WHERE gpu_type IN (SELECT unnest(string_split(getvariable('lesser_types'), ',')))
        GROUP BY cluster_id, gpu_type
    )
    GROUP BY cluster_id
),
owners AS (
    SELECT
        job_key, job_id, user_id,
        -- Without groups in the source, a job recurs only with its own attempts.
        group_id IS DISTINCT FROM user_id AND group_id IS NOT NULL AS has_group,
        CASE
            WHEN group_id IS DISTINCT FROM user_id AND group_id IS NOT NULL THEN hash(cluster_id, group_id)
            ELSE hash(job_key)
        END AS recurs_as
    FROM silver_jobs
    WHERE
        (getvariable('user') IS NULL OR coalesce(user_id, 'unknown') = getvariable('user'))
        AND (getvariable('group') IS NULL OR coalesce(group_id, user_id, 'unknown') = getvariable('group'))
        AND (getvariable('account') IS NULL OR account_id = getvariable('account'))
),
-- Without the text columns of its job: there are many more attempts than jobs.
owned AS NOT MATERIALIZED (
    SELECT holdings.*, owners.recurs_as
    FROM silver_holdings AS holdings
    INNER JOIN owners ON holdings.job_key = owners.job_key
    WHERE holdings.held_seconds > 0
),
-- Where several attempts claimed the same GPU, each counts less, as in the ledger.
excess AS (
    SELECT instance_key, attempt, sum(hours) AS surplus_hours, sum(lost_hours) AS surplus_lost_hours
    FROM silver_overcommits
    SEMI JOIN span USING (cluster_id, dt)
    SEMI JOIN owners USING (job_key)
    GROUP BY instance_key, attempt
),
held AS (
    SELECT
        holdings.cluster_id, holdings.job_key, holdings.instance_key, holdings.attempt, holdings.recurs_as,
        coalesce(capacity.gpu_type, holdings.gpu_type, 'unknown') AS gpu_type, holdings.use_bucket, holdings.gpus,
        holdings.bucket = 'failed' AS has_failed, holdings.has_checkpoint, holdings.is_inferred,
        -- least() ignores NULL, hence the CASE.
        CASE WHEN holdings.used_gpus IS NOT NULL THEN least(holdings.used_gpus, holdings.gpus) END AS used_gpus,
        greatest(holdings.held_from, bounds.from_at) AS counted_from,
        (
            epoch(least(holdings.held_until, bounds.until_at)) - epoch(greatest(holdings.held_from, bounds.from_at))
        ) / 3600 - coalesce(excess.surplus_hours, 0) AS hours,
        -- Since the last checkpoint that is known. What came before counts by use.
        (epoch(holdings.held_until) - epoch(coalesce(holdings.lost_from, holdings.held_until))) / 3600
            AS whole_lost_hours,
        greatest(
            epoch(least(holdings.held_until, bounds.until_at))
            - epoch(greatest(coalesce(holdings.lost_from, holdings.held_until), bounds.from_at)), 0
        ) / 3600 - coalesce(excess.surplus_lost_hours, 0) AS lost_hours,
        hours - lost_hours AS kept_hours
    FROM owned AS holdings
    INNER JOIN bounds
        ON
            holdings.cluster_id = bounds.cluster_id
            AND holdings.held_from < bounds.until_at AND holdings.held_until > bounds.from_at
    LEFT JOIN silver_capacity AS capacity ON holdings.machine_key = capacity.machine_key
    LEFT JOIN excess ON holdings.instance_key = excess.instance_key AND holdings.attempt = excess.attempt
    WHERE holdings.use_bucket != 'unobserved' OR holdings.lost_from IS NOT NULL
),
failing AS (
    SELECT recurs_as FROM held WHERE has_failed AND whole_lost_hours > 0 GROUP BY recurs_as
    HAVING count(DISTINCT (job_key, attempt)) >= getvariable('failures')
),
-- A gang's attempts of one number are one try of its job.
tries AS (
    SELECT
        holdings.recurs_as, holdings.job_key, holdings.attempt, min(holdings.held_from) AS begun_at,
        max(holdings.held_until) AS ended_at, bool_or(holdings.bucket = 'failed') AS is_failure,
        bool_and(holdings.status = 'succeeded') AS has_succeeded
    FROM owned AS holdings
    SEMI JOIN failing ON holdings.recurs_as = failing.recurs_as
    GROUP BY holdings.recurs_as, holdings.job_key, holdings.attempt
),
-- A failure counts from its end on, until the next success ends.
events AS (
    SELECT recurs_as, job_key, attempt, ended_at AS happened_at, 0 AS is_begin, is_failure, has_succeeded
    FROM tries
    UNION ALL
    SELECT recurs_as, job_key, attempt, begun_at, 1, false, false
    FROM tries
    WHERE is_failure
),
rows_of_failures AS (
    SELECT
        *, sum(has_succeeded::INTEGER) OVER (
            PARTITION BY recurs_as ORDER BY happened_at, is_begin, has_succeeded ROWS UNBOUNDED PRECEDING
        ) AS successes
    FROM events
),
repeated AS (
    SELECT job_key, attempt
    FROM (
        SELECT
            job_key, attempt, is_begin, sum(is_failure::INTEGER) OVER (
                PARTITION BY recurs_as, successes ORDER BY happened_at, is_begin ROWS UNBOUNDED PRECEDING
            ) AS failures_before
        FROM rows_of_failures
    )
    WHERE is_begin = 1 AND failures_before >= getvariable('failures') - 1
),
recurring AS (
    SELECT recurs_as FROM owners WHERE has_group GROUP BY recurs_as HAVING count(*) >= getvariable('recurrences')
),
empty AS (
    SELECT *, 'release' AS kind, gpus * kept_hours AS saved, true AS is_certain, 1.0 AS price_ratio
    FROM held WHERE use_bucket = 'idle'
),
lost AS (
    SELECT
        held.*, CASE WHEN repeated.job_key IS NULL THEN 'checkpoint' ELSE 'stop' END AS kind,
        gpus * lost_hours * CASE
            WHEN repeated.job_key IS NULL THEN 1 - getvariable('checkpoint_hours') / 2 / whole_lost_hours ELSE 1
        END AS saved,
        has_checkpoint AS is_certain, 1.0 AS price_ratio
    FROM held
    LEFT JOIN repeated
        ON held.job_key = repeated.job_key AND held.attempt = repeated.attempt AND held.has_failed
    WHERE
        held.lost_hours > 0
        AND (repeated.job_key IS NOT NULL OR held.whole_lost_hours > getvariable('checkpoint_hours'))
),
-- What would run on a lesser type: it uses little, and what it keeps in memory fits.
fitting AS (
    SELECT held.instance_key, held.attempt
    FROM held
    INNER JOIN silver_instances AS instances
        ON held.instance_key = instances.instance_key AND held.attempt = instances.attempt
    INNER JOIN silver_instance_usage AS usage ON instances.worker_key = usage.worker_key
    WHERE
        held.use_bucket = 'used' AND held.kept_hours > 0 AND held.used_gpus < getvariable('low_use') * held.gpus
        AND held.gpu_type IN (SELECT unnest(string_split(getvariable('scarce_types'), ',')))
        AND usage.peak_gpu_memory_bytes / ceil(held.gpus) < getvariable('lesser_bytes')
),
choices AS (
    SELECT
        held.*, current.price, smaller.price AS lesser_price,
        greatest(held.gpus - getvariable('headroom') * held.used_gpus, 0) * held.kept_hours AS fewer,
        held.gpus = 1 AND held.used_gpus < getvariable('shared_use') AND recurring.recurs_as IS NOT NULL
            AS is_shareable,
        fitting.instance_key IS NOT NULL AND lesser.lesser_type IS NOT NULL AS has_room_on_lesser
    FROM held
    LEFT JOIN fitting ON held.instance_key = fitting.instance_key AND held.attempt = fitting.attempt
    LEFT JOIN recurring ON held.recurs_as = recurring.recurs_as
    LEFT JOIN lesser ON held.cluster_id = lesser.cluster_id
    LEFT JOIN prices AS current ON held.gpu_type = current.gpu_type
    LEFT JOIN prices AS smaller ON lesser.lesser_type = smaller.gpu_type
    WHERE held.use_bucket = 'used' AND held.kept_hours > 0
),
under_used AS (
    SELECT
        * EXCLUDE (fewer, is_shareable, has_room_on_lesser, price, lesser_price, is_smaller),
        CASE WHEN is_smaller THEN 'smaller' WHEN is_shareable THEN 'share' ELSE 'fewer' END AS kind,
        CASE WHEN is_smaller THEN (gpus - used_gpus) * kept_hours ELSE fewer END AS saved, true AS is_certain,
        -- All that was held is paid at the lesser price, not only what was left unused.
        CASE
            WHEN is_smaller THEN (price - lesser_price) / nullif(price, 0) * gpus / (gpus - used_gpus) ELSE 1.0
        END AS price_ratio
    FROM (
        SELECT
            *, has_room_on_lesser AND coalesce(
                gpus * kept_hours * (price - lesser_price) >= fewer * price, true
            ) AS is_smaller
        FROM choices
    )
),
claims AS (
    FROM empty UNION ALL BY NAME FROM lost UNION ALL BY NAME FROM under_used
),
jobs AS (
    SELECT
        kind, cluster_id, job_key, min(counted_from) AS counted_from,
        CASE WHEN min(claims.gpu_type) = max(claims.gpu_type) THEN min(claims.gpu_type) ELSE 'several' END AS gpu_type,
        count(*) AS attempts, sum(gpus * hours) AS held, sum(used_gpus * hours) AS measured, sum(saved) AS saved,
        sum(CASE WHEN is_certain THEN saved ELSE 0 END) AS certain,
        sum(CASE WHEN is_inferred THEN saved ELSE 0 END) AS inferred,
        sum(saved * price_ratio * prices.price) AS cost,
        sum(CASE WHEN price_ratio * prices.price IS NULL THEN saved ELSE 0 END) AS unpriced
    FROM claims
    LEFT JOIN prices ON claims.gpu_type = prices.gpu_type
    WHERE saved > 0
    GROUP BY kind, cluster_id, job_key
),
totals AS (
    SELECT
        kind, struct_pack(
            saved_gpu_hours := sum(saved), saved_at_least_gpu_hours := sum(certain),
            inferred_gpu_hours := sum(inferred), saved_cost := sum(cost), unpriced_gpu_hours := sum(unpriced),
            jobs := count(*), users := count(DISTINCT user_id)
        ) AS totals
    FROM jobs
    INNER JOIN owners USING (job_key)
    GROUP BY kind
),
shown AS (
    FROM jobs
    INNER JOIN owners USING (job_key)
    SELECT jobs.*, owners.job_id, owners.user_id
    QUALIFY row_number() OVER (PARTITION BY kind ORDER BY saved DESC, job_id) <= getvariable('most')
)
SELECT
    shown.kind, lesser.lesser_type,
    struct_pack(
        job_id := shown.job_id, user_id := shown.user_id, cluster_id := shown.cluster_id, gpu_type := shown.gpu_type,
        "day" := span.dt, attempts := shown.attempts, held_gpu_hours := shown.held,
        measured_gpu_hours := shown.measured, saved_gpu_hours := shown.saved
    ) AS proof,
    totals.* EXCLUDE (kind)
FROM shown
INNER JOIN totals ON shown.kind = totals.kind
LEFT JOIN span
    ON
        shown.cluster_id = span.cluster_id
        AND shown.counted_from >= span.started_at AND shown.counted_from < span.ended_at
LEFT JOIN lesser ON shown.cluster_id = lesser.cluster_id
ORDER BY shown.kind, shown.saved DESC, shown.job_id
