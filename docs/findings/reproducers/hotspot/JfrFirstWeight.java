import jdk.jfr.Recording;

/** The first sample of a thread has the bytes that it allocated before the recording. */
class JfrFirstWeight {
    public static void main(String[] arguments) throws Exception {
        Jfr.allocateInWorker(100);
        long sum = 0;
        for (int recordings = 0; recordings < 2; recordings++) {
            Recording recording = new Recording();
            Jfr.enable(recording);
            recording.start();
            Jfr.allocateInWorker(1);
            sum += Jfr.weights(recording, event -> Jfr.isOf(event, "worker"));
        }
        Jfr.verdict(sum > 4L * Jfr.MIB, "100 MiB before two recordings of 1 MiB each: expected 2 MiB, got %d",
            sum / Jfr.MIB);
    }
}
