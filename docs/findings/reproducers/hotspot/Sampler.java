/** What sampler.c offers, and what the reproducers share. */
final class Sampler {
    static final int INTERVAL = 512 << 10;  // JVMTI's default
    static volatile Object sink;

    static native void interval(int bytes);
    static native void enable();
    static native void disable();

    /** How many allocations of this thread were sampled so far. */
    static native long samples();

    /** The same of all threads. */
    static native long samplesOfAll();

    /** Allocates 16 bytes at a time until one is sampled, and says how many it were. */
    static int untilSampled() {
        long before = samples();
        for (int count = 1;; count++) {
            sink = new byte[0];
            if (samples() != before) return count;
        }
    }

    /** Ends the program: 1 if the promise is broken. */
    static void verdict(boolean broken, String format, Object... values) {
        System.out.printf(format + "%n", values);
        System.exit(broken ? 1 : 0);
    }
}
