/** A sampled copy of an array shows the bytes of dead objects to the callback. */
class StaleContents {
    static final int CALLS = 200_000, COPIES = 1000, BYTES = 200, DEAD = 7;
    static final byte[] zeros = new byte[BYTES];
    static int copies, stale;

    static byte[] copy() {
        return zeros.clone();
    }

    /** The agent calls this at each sample: all bytes are 0 before and after the copy. */
    static void sampled(Object object) {
        if (!(object instanceof byte[])) return;
        copies++;
        for (byte each : (byte[]) object) {
            if (each != 0) {
                stale++;
                return;
            }
        }
    }

    public static void main(String[] arguments) {
        for (int i = 0; i < CALLS; i++) {
            byte[] dead = new byte[BYTES];
            java.util.Arrays.fill(dead, (byte) DEAD);
            Sampler.sink = dead;
            Sampler.sink = copy();
        }
        Sampler.interval(0);
        Sampler.enable();
        Sampler.untilSampled();  // From here on each allocation is a sample.
        Sampler.call(StaleContents.class);
        for (int i = 0; i < COPIES; i++) Sampler.sink = copy();
        Sampler.disable();
        Sampler.verdict(stale > 0, "of %d sampled arrays of zeros: expected 0 with other bytes, got %d", copies, stale);
    }
}
