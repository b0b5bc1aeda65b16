//! More readers than there is room for.

use crate::common::Pipe;
use crate::world::{World, get, large, put, settle, short_round};
use culm_file::{Operation, Taken};

#[test]
fn more_readers_than_there_is_room_for_all_get_theirs() {
    const CLIENTS: usize = 60;
    let mut world = World::new(CLIENTS, 32 * 1024);
    for slot in 0..CLIENTS {
        let content = large(40_000 + slot);
        world.files().put(&format!("/file{slot}"), &content);
        world.pipe(slot).input = get(&format!("/file{slot}")).into_bytes();
    }
    let mut random = 7usize;
    world.run(|_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 33
    });
    for slot in 0..CLIENTS {
        assert_eq!(world.answer(slot), (200, large(40_000 + slot)), "client {slot}");
    }
}

/// As many clients as there are places for open files, which take nothing of what they asked for.
fn occupy_all_places(world: &mut World) {
    const PLACES: usize = 20;
    for slot in 0..PLACES {
        world.files().put(&format!("/held{slot}"), &large(400_000));
        world.pipe(slot).input = get(&format!("/held{slot}")).into_bytes();
    }
    for _ in 0..200 {
        let _ = short_round(world);
        let _ = world.files().round();
    }
}

#[test]
fn those_who_wait_leave_the_processor_to_others() {
    const CLIENTS: usize = 20 + 70;
    let mut world = World::new(CLIENTS, 128 * 1024);
    occupy_all_places(&mut world);
    for slot in 20..CLIENTS {
        world.files().put(&format!("/file{slot}"), b"abc");
        world.pipe(slot).input = get(&format!("/file{slot}")).into_bytes();
        world.server.ready(slot);
    }
    let rounds = (0..50).take_while(|_| short_round(&mut world)).count();
    assert!(rounds < 50, "there is no end to it");
    assert!((20..CLIENTS).all(|slot| world.pipe(slot).output.is_empty()));
    // One that goes makes room for all of them.
    world.pipe(0).aborted = true;
    world.server.ready(0);
    world.server.run(&mut world.pipes, 0, 64);
    world.pipes.0[0] = Some(Pipe::default());
    for _ in 0..2000 {
        let _ = short_round(&mut world);
        let _ = world.files().round();
    }
    for slot in 20..CLIENTS {
        assert_eq!(world.answer(slot), (200, b"abc".to_vec()), "client {slot}");
    }
}

#[test]
fn slow_readers_keep_nobody_from_other_files() {
    let mut world = World::new(22, 128 * 1024);
    occupy_all_places(&mut world);
    world.pipe(20).input = get("/index.html").into_bytes();
    settle(&mut world);
    assert!(world.pipe(20).output.is_empty(), "what was opened just now stays open");
    world.now += 10;
    settle(&mut world);
    assert_eq!(world.answer(20), (200, b"<p>start".to_vec()));
    // They go on where they were, but for one whose file is another one now.
    world.now += 10;
    let other = vec![b'x'; 400_000];
    world.files().put("/held0", &other);
    world.run(|_| 0);
    for slot in 1..20 {
        assert_eq!(world.answer(slot), (200, large(400_000)), "client {slot}");
    }
    assert!(world.pipe(0).aborted);
    let (_, content) = world.answer(0);
    assert!(content.len() < 400_000 && content == large(400_000)[..content.len()]);
}

#[test]
fn slow_readers_of_one_file_keep_nobody_from_it() {
    let mut world = World::new(22, 128 * 1024);
    for slot in 0..20 {
        world.pipe(slot).input = get("/large").into_bytes();
        settle(&mut world);
        world.now += 1;
    }
    for path in ["/large", "/index.html"] {
        world.pipe(20).input = get(path).into_bytes();
        settle(&mut world);
        assert!(!world.pipe(20).output.is_empty(), "{path}");
        world.run(|_| 0);
        let _ = world.answer(20);
    }
    for slot in 0..20 {
        assert_eq!(world.answer(slot), (200, large(300_000)), "client {slot}");
    }
}

#[test]
fn slow_readers_hold_no_buffer_at_the_end_of_their_send_buffers() {
    // More than there are buffers for what is on its way.
    const READERS: usize = 12;
    let mut world = World::new(READERS + 3, 128 * 1024);
    for slot in 0..READERS {
        let pipe = world.pipe(slot);
        (pipe.piece, pipe.input) = (5000, get("/large").into_bytes());
    }
    settle(&mut world);
    for slot in 0..READERS {
        world.pipe(slot).unacknowledged -= 10_000;
    }
    settle(&mut world);
    for (slot, request, status) in [
        (READERS, get("/large"), "HTTP/1.1 200"),
        (READERS + 1, get("/index.html"), "HTTP/1.1 200"),
        (READERS + 2, put("/new", "abc"), "HTTP/1.1 201"),
    ] {
        world.pipe(slot).input = request.clone().into_bytes();
        settle(&mut world);
        assert!(world.pipe(slot).output.starts_with(status.as_bytes()), "{request}");
    }
    world.run(|_| 0);
    for slot in 0..=READERS {
        assert_eq!(world.answer(slot), (200, large(300_000)), "client {slot}");
    }
}

#[test]
fn a_small_file_does_not_wait_for_the_buffers_of_large_ones() {
    const READERS: usize = 12;
    let mut world = World::new(READERS + 1, 128 * 1024);
    for slot in 0..READERS {
        world.pipe(slot).input = get("/large").into_bytes();
    }
    world.pipe(READERS).input = get("/index.html").into_bytes();
    // All that is asked for is done, but no large file is read.
    let is_done = |taken: &Taken| taken.request.operation != Operation::Read || taken.request.length < 100;
    for slot in 0..=READERS {
        world.server.ready(slot);
        for _ in 0..10 {
            let _ = short_round(&mut world);
            let files = world.files();
            files.take();
            while let Some(next) = files.taken.iter().position(is_done) {
                files.finish(next);
            }
            let _ = files.end_round();
        }
    }
    assert!(world.files().taken.len() < READERS, "nobody waits for a buffer");
    assert_eq!(world.answer(READERS), (200, b"<p>start".to_vec()));
}

#[test]
fn fast_readers_do_not_shut_out_another() {
    const READERS: usize = 12;
    let mut world = World::new(READERS, 128 * 1024);
    for slot in 0..READERS {
        world.files().put(&format!("/film{slot}"), &large(3_000_000));
        *world.pipe(slot) = Pipe { input: get(&format!("/film{slot}")).into_bytes(), ..Pipe::default() };
    }
    for _ in 0..100 {
        let _ = short_round(&mut world);
        let _ = world.files().round();
    }
    let got: Vec<_> = world.pipes.0.iter().flatten().map(|pipe| pipe.output.len()).collect();
    let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
    assert!(*least > 100_000 && most - least < 200_000, "{got:?}");
}

/// Requests that the disk ends in a unit of time.
const SPEED: usize = 100;

/// Rounds in which the disk ends one request each, until a slot is answered. Returns in which that
/// was.
fn on_a_slow_disk(world: &mut World, rounds: usize, slot: usize) -> Option<usize> {
    at_a_speed(world, SPEED, rounds, slot)
}

/// The same with a disk that ends so many requests in a unit of time.
fn at_a_speed(world: &mut World, speed: usize, rounds: usize, slot: usize) -> Option<usize> {
    for round in 0..rounds {
        for slot in 0..world.pipes.0.len() {
            if !world.pipe(slot).input.is_empty() {
                world.server.ready(slot);
            }
        }
        while short_round(world) {}
        let files = world.files();
        files.take();
        if !files.taken.is_empty() {
            files.finish(0);
        }
        let _ = files.end_round();
        world.now += u64::from(round % speed == speed - 1);
        if !world.pipe(slot).output.is_empty() {
            return Some(round);
        }
    }
    None
}

/// The reads after which somebody is answered at the latest while all places are busy: as many as a
/// disk ends in the time for which a file stays open, and two for each reader.
const PATIENCE: usize = 3 * SPEED + 2 * 60;

#[test]
fn busy_readers_of_as_many_files_as_are_open_keep_nobody_from_others() {
    const READERS: usize = 60;
    let mut world = World::new(READERS + 1, 128 * 1024);
    for slot in 0..READERS {
        let path = format!("/film{}", slot % 20);
        world.files().put(&path, &large(2_000_000));
        *world.pipe(slot) = Pipe { input: get(&path).into_bytes(), ..Pipe::default() };
    }
    on_a_slow_disk(&mut world, 1000, READERS);
    world.pipe(READERS).input = get("/index.html").into_bytes();
    let reads = on_a_slow_disk(&mut world, 40_000, READERS).expect("an answer");
    assert!(reads <= PATIENCE, "{reads}");
    world.run(|_| 0);
    assert_eq!(world.answer(READERS), (200, b"<p>start".to_vec()));
    for slot in 0..READERS {
        assert_eq!(world.answer(slot), (200, large(2_000_000)), "client {slot}");
    }
}

#[test]
fn a_crowd_at_one_file_keeps_nobody_from_others() {
    const READERS: usize = 300;
    let mut world = World::new(READERS + 1, 1024 * 1024);
    world.files().put("/film", &large(1_000_000));
    let acknowledge = |world: &mut World| {
        for slot in 0..READERS {
            world.pipe(slot).unacknowledged = 0;
            world.server.ready(slot);
        }
    };
    for slot in 0..READERS {
        *world.pipe(slot) = Pipe { buffer: Some(32 * 1024), input: get("/film").into_bytes(), ..Pipe::default() };
        on_a_slow_disk(&mut world, 10, READERS);
        world.now += u64::from(slot % 12 == 11);
        acknowledge(&mut world);
    }
    world.pipe(READERS).input = get("/index.html").into_bytes();
    let mut reads = 0;
    while world.pipe(READERS).output.is_empty() {
        on_a_slow_disk(&mut world, 5, READERS);
        acknowledge(&mut world);
        reads += 5;
        world.now += u64::from(reads % SPEED == 0);
        assert!(reads <= PATIENCE, "no answer");
    }
    world.run(|_| 0);
    assert_eq!(world.answer(READERS), (200, b"<p>start".to_vec()));
    for slot in 0..READERS {
        assert_eq!(world.answer(slot), (200, large(1_000_000)), "client {slot}");
    }
}

/// Tests that readers go on, although others want their places sooner than a buffer is theirs.
#[test]
fn those_who_want_other_files_do_not_shut_out_readers() {
    const READERS: usize = 60;
    const OTHERS: usize = 30;
    let mut world = World::new(READERS + OTHERS, 128 * 1024);
    for slot in 0..READERS {
        let path = format!("/film{}", slot % 20);
        world.files().put(&path, &large(200_000));
        *world.pipe(slot) = Pipe { input: get(&path).into_bytes(), ..Pipe::default() };
    }
    for page in 0..100 {
        world.files().put(&format!("/page{page}"), b"page");
    }
    let (mut asked, mut answered) = (0, 0);
    for _ in 0..2250 {
        for slot in READERS..READERS + OTHERS {
            let pipe = world.pipe(slot);
            if !pipe.output.is_empty() || asked < OTHERS {
                answered += usize::from(!pipe.output.is_empty());
                pipe.output.clear();
                pipe.unacknowledged = 0;
                pipe.input.extend(get(&format!("/page{}", asked % 100)).into_bytes());
                asked += 1;
            }
        }
        // A buffer is free for a reader after more time than a file stays open.
        at_a_speed(&mut world, 4, 4, READERS + OTHERS - 1);
    }
    assert!(answered > 10 * OTHERS, "{answered}");
    for slot in 0..READERS {
        assert_eq!(world.answer(slot), (200, large(200_000)), "client {slot}");
    }
}
