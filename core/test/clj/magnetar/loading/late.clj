(ns magnetar.loading.late
  "A namespace whose loading takes as long as the test wants.")

@@(resolve 'magnetar.loading-test/go-on)

(def answer 42)
