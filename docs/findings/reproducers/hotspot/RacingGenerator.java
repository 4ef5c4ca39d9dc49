/**
 * Two threads that draw at once lose steps of the generator.
 *
 * The generator's state is known from its seed, the lower half of the youngest thread's address, and that
 * from the gaps between a few samples. So one can say how many steps it made while two threads drew.
 */
class RacingGenerator {
    static final int INTERVAL = 64 << 10, GAPS = 8;
    static final long MULTIPLIER = 0x5DEECE66DL, ADDEND = 0xB, MASK = (1L << 48) - 1;
    static volatile boolean born, go;
    static long before, drawn;

    static long next(long state) {
        return (state * MULTIPLIER + ADDEND) & MASK;
    }

    /** ThreadHeapSampler::pick_next_geometric_sample */
    static long distance(long state) {
        double q = (state >>> 22) + 1;
        long entry = Double.doubleToRawLongBits(q) >>> 42 & 1023;
        double log2 = Math.getExponent(q) + Math.log1p((entry + 0.5) / 1024) / Math.log(2);
        return (long) (Math.min(log2 - 26, 0) * -Math.log(2) * INTERVAL + 1);
    }

    /** Whether the draws from this one on give the gaps, counted in objects of 16 bytes. */
    static boolean matches(long state, int[] gaps) {
        for (int gap : gaps) {
            long over = 16L * gap - distance(state);
            if (over < 0 || over > 16) return false;
            state = next(state);
        }
        return true;
    }

    /** Gaps without draws of other threads, in a new TLAB that is larger than all of them. */
    static int[] gaps() {
        int[] gaps = new int[GAPS];
        Sampler.interval(INTERVAL);
        do {
            System.gc();
            Sampler.untilSampled();
            drawn = Sampler.samplesOfAll() - before;
            for (int i = 0; i < GAPS; i++) gaps[i] = Sampler.untilSampled();
        } while (Sampler.samplesOfAll() - before != drawn + GAPS);
        return gaps;
    }

    /** The draw of the first of these gaps. The youngest thread drew before. */
    static long drawOf(int[] gaps) {
        double top = Math.exp(-16.0 * gaps[0] / INTERVAL) * (1 << 26);
        for (long i = 0; i < 1L << 29; i++) {
            long state = i % 64 << 26 | i / 64 << 3;  // Tries the starts of malloc's arenas first.
            for (long j = 0; j <= drawn; j++) state = next(state);
            if (Math.abs((state >>> 22) - top) < 0.01 * top + 2 && matches(state, gaps)) return state;
        }
        throw new AssertionError("no seed gives these gaps");
    }

    /** At interval 1 each object of 32 bytes is longer than any distance, so each one draws. */
    static void draw(int count) {
        Sampler.untilSampled();
        for (int i = 0; i < count; i++) Sampler.sink = new byte[16];
    }

    public static void main(String[] arguments) throws InterruptedException {
        int count = Integer.parseInt(arguments[0]);
        Thread other = new Thread(() -> {
            born = true;
            while (!go) Thread.yield();
            draw(count);
        });
        Sampler.enable();
        for (int i = 0; i < 20; i++) gaps();  // Until it is compiled.
        Sampler.disable();
        other.setDaemon(true);
        other.start();
        while (!born) Thread.yield();
        before = Sampler.samplesOfAll();
        Sampler.enable();
        long state = drawOf(gaps()), draws = -drawn, steps = 0;
        Sampler.interval(1);
        go = true;
        draw(count);
        other.join();
        int[] gaps = gaps();
        Sampler.disable();
        for (draws += drawn; steps < draws && !matches(state, gaps); steps++) state = next(state);
        if (!matches(state, gaps)) throw new AssertionError("another thread was born meanwhile");
        Sampler.verdict(steps < draws, "%d draws of two threads: expected as many steps of the generator, got %d",
            draws, steps);
    }
}
