//! A client that lies in every field, beside one that does not.

use super::{Image, World, pattern};
use culm::{Link, Region};
use culm_file::{AnswerEntry, Client, RequestEntry};
use proptest::prelude::*;

/// Words that are sometimes nearly right.
fn entry() -> impl Strategy<Value = RequestEntry> {
    let near = (0..4_u64, 0..14_u64, 0..3_u64, 0..3000_u64, 0..3000_u64, 0..18_u64);
    prop_oneof![
        1 => any::<[u64; 2]>().prop_map(RequestEntry),
        9 => near.prop_map(|(token, operation, file, length, position, place)| {
            let (length, position) = if (4..8).contains(&operation) || operation == 9 { (length, position) } else { (length % 12, 0) };
            RequestEntry([token | operation << 16 | file << 24 | length << 32, position | place << 40])
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn others_and_the_volume_stay_whole(rounds in proptest::collection::vec(
        (proptest::collection::vec(entry(), 0..12), any::<bool>(), "/[ab]{1,2}(/[ab])?", any::<bool>()), 1..30
    )) {
        let image = Image::formatted("4");
        image.make_folder("/mine");
        image.make_folder("/theirs");
        image.put("/mine/file", &pattern(5000, 1));
        let mut world = World::new(&image, &[("/mine", true), ("/theirs", true)]);
        let provided = world.provided[1];
        let memory = Region::new(provided.memory);
        let mut link = Link::<RequestEntry, AnswerEntry>::new(provided.requests, provided.answers, 60);
        for (entries, reads, path, dies) in rounds {
            if dies {
                link = Link::new(provided.requests, provided.answers, 60);
            }
            let _ = link.begin();
            for block in 0..16 {
                memory.write(block * 1024, path.as_bytes()).expect("inside");
            }
            let _ = link.output.push_slice(&entries);
            if reads {
                while link.input.pop().is_some() {}
            }
            link.publish();
            for _ in 0..20 {
                let _ = world.service.round();
                let _ = world.disk.round();
            }
        }
        prop_assert!(world.read_all(0, "/file") == pattern(5000, 1));
        world.clients[1] = Client::connect(&World::client(&provided));
        prop_assert_eq!(world.run(), []);
        world.put(1, "/honest", &pattern(9000, 2), 3000).expect("there is space");
        prop_assert!(world.read_all(1, "/honest") == pattern(9000, 2));
        world.rest();
        let image = world.image();
        prop_assert!(image.get("/mine/file") == pattern(5000, 1));
    }
}
