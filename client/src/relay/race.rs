//! Several routes to one machine: the preferred one first, and soon the next ones beside it.

use std::future::Future;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;

use crate::bounds::RACE_AFTER;

/// Begins the ways from 0 to `count` one after the other, the next one [`RACE_AFTER`] after the one before or when one has
/// failed. Gives the first that comes through, and which it was; the others are given up. When all fail, the preferred one
/// says why.
pub(super) async fn first<T, E, F>(count: usize, begin: impl Fn(usize) -> F) -> Result<(usize, T), E>
where
    F: Future<Output = Result<T, E>>,
{
    let run = |index: usize| {
        let way = begin(index);
        async move { (index, way.await) }
    };
    let mut running = FuturesUnordered::from_iter([run(0)]);
    let (mut begun, mut failed) = (1, None);
    loop {
        let ended = tokio::select! {
            Some(ended) = running.next() => Some(ended),
            () = sleep(RACE_AFTER), if begun < count => None,
        };
        match ended {
            Some((index, Ok(through))) => return Ok((index, through)),
            Some((index, Err(error))) if index == 0 || failed.is_none() => failed = Some(error),
            _ => {}
        }
        if begun < count {
            running.push(run(begun));
            begun += 1;
        } else if running.is_empty()
            && let Some(error) = failed.take()
        {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    /// Ways that take so many milliseconds and then come through or fail.
    async fn race(ways: &[(u64, bool)]) -> (Result<usize, usize>, Duration) {
        let began = Instant::now();
        let won = first(ways.len(), |index| {
            let (ms, through) = ways[index];
            async move {
                sleep(Duration::from_millis(ms)).await;
                if through { Ok(()) } else { Err(index) }
            }
        });
        (won.await.map(|(index, ())| index), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn the_preferred_way_has_a_start_and_the_rest_a_chance() {
        let ms = Duration::from_millis;
        assert_eq!(race(&[(10, true), (0, true)]).await, (Ok(0), ms(10)));
        assert_eq!(race(&[(249, true), (0, true)]).await, (Ok(0), ms(249)));
        assert_eq!(race(&[(900, true), (50, true)]).await, (Ok(1), ms(300)));
        assert_eq!(race(&[(10, false), (20, true), (0, true)]).await, (Ok(1), ms(30)));
        assert_eq!(race(&[(9_000, true), (9_000, false), (100, true)]).await, (Ok(2), ms(600)));
        assert_eq!(race(&[(800, false), (10, false)]).await, (Err(0), ms(800)));
        assert_eq!(race(&[(5, false)]).await, (Err(0), ms(5)));
    }
}
