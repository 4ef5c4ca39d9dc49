/** The functions of sampler.c, and what the reproducers share. */
final class Sampler {
    static final int INTERVAL = 512 << 10;  // JVMTI's default
    static volatile Object sink;

    static native void interval(int bytes);
    static native void enable();
    static native void disable();

    /** From now on each event calls the class's method `static void sampled(Object object)`. */
    static native void call(Class<?> target);

    /** The number of sampled allocations of this thread. */
    static native long samples();

    /** The number of sampled allocations of all threads. */
    static native long samplesOfAll();

    /** Allocates 16 bytes at a time until one is sampled, and returns their number. */
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
