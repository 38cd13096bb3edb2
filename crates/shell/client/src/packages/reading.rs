//! Reading chunks from a store.

use api::v1;
use model::Digest;
use rpc::Rotating;

use super::{CHUNK_BYTES_MAX, Store, StoreError, joined};

/// The maximum number of chunks in one request.
const DIGESTS_MAX: usize = 1_024;

/// Reads the chunks of one package.
#[derive(Clone, Debug)]
pub struct Reader {
    store: Store,
    right: v1::Statement,
}

impl Reader {
    /// A reader with a right to read a package, which connects lazily.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(
        store: &str,
        credentials: &Rotating,
        right: v1::Statement,
    ) -> Result<Self, StoreError> {
        Ok(Self { store: Store::connect(store, credentials)?, right })
    }

    /// Reads chunks in this order and gives each to `each`, which may wait. Their digests are for the receiver to check.
    ///
    /// # Errors
    /// When the store does not send them all.
    pub async fn read<E: From<StoreError>>(
        &mut self,
        digests: &[Digest],
        mut each: impl AsyncFnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        for some in digests.chunks(DIGESTS_MAX) {
            let request =
                v1::FetchRequest { right: Some(self.right.clone()), digests: joined(some) };
            let answered = self.store.client.fetch(request).await;
            let mut answers = answered.map_err(|status| self.store.failed(&status))?.into_inner();
            let (mut partial, mut left) = (Vec::new(), some.len());
            loop {
                let answer =
                    answers.message().await.map_err(|status| self.store.failed(&status))?;
                let Some(v1::FetchResponse { chunks, more }) = answer else { break };
                let last = chunks.len().saturating_sub(1);
                for (position, chunk) in chunks.into_iter().enumerate() {
                    let chunk = match partial.is_empty() {
                        true => chunk,
                        false => [std::mem::take(&mut partial), chunk].concat(),
                    };
                    if chunk.len() > CHUNK_BYTES_MAX {
                        return Err(self.store.wrong("a chunk that is too long").into());
                    }
                    if more && position == last {
                        partial = chunk;
                        continue;
                    }
                    left = left
                        .checked_sub(1)
                        .ok_or_else(|| self.store.wrong("more chunks than were asked for"))?;
                    each(chunk).await?;
                }
            }
            if left > 0 || !partial.is_empty() {
                return Err(self.store.wrong("fewer chunks than were asked for").into());
            }
        }
        Ok(())
    }

    /// Reads one chunk.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub async fn one(&mut self, digest: Digest) -> Result<Vec<u8>, StoreError> {
        let mut read = Vec::new();
        self.read(&[digest], async |chunk| {
            read = chunk;
            Ok::<(), StoreError>(())
        })
        .await?;
        Ok(read)
    }
}
