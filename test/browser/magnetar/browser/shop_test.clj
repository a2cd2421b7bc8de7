(ns magnetar.browser.shop-test
  "The page of the example shop in a browser."
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.application :as application]
   [magnetar.browser.chromium :as chromium]
   [magnetar.http :as http]
   [shop.jobs :as jobs]
   [shop.support :as support :refer [with-shop]]))

(set! *warn-on-reflection* true)

(def ^:private ^:dynamic *browser* nil)

(use-fixtures :once (fn [tests]
                      (chromium/call-with-browser #(binding [*browser* %] (tests)))))

(def ^:private all-steps
  ["The order is accepted." "The payment has arrived." "The parcel is packed." "The parcel is on its way."])

(defn- open [host]
  (doto (chromium/open-page *browser* (str "http://" host ":" (http/port :shop/web) "/"))
    (chromium/await-true "document.querySelectorAll('#articles button').length === 3")))

(defn- order [page article]
  (chromium/evaluate page (str "document.querySelector('[aria-label=\"Order " article "\"]').click()")))

(defn- await-end
  "Waits until the first row of the table shows the order, in that state, and the stream of its progress is closed. The table may be
  ahead of the stream."
  [page id state]
  (chromium/await-true page (str "(cells => cells[0].textContent === '" id "' && cells[3].textContent === '" state "'"
                                 " && source.readyState === EventSource.CLOSED)"
                                 "(document.querySelectorAll('#orders tr:first-child td'))")))

(defn- texts [page selector]
  (chromium/evaluate page (str "Array.from(document.querySelectorAll('" selector "'), e => e.textContent)")))

(deftest ^{:limit 120000} an-order-is-placed-by-a-click-and-its-progress-is-shown-to-the-end
  (with-shop {}
    (doseq [[id host secure?] [[1 "127.0.0.1" true] [2 "shop.test" false]]]
      (testing host
        (let [page (open host)]
          (is (= secure? (chromium/evaluate page "isSecureContext")))
          (order page "Cup of stoneware")
          (is (= true (await-end page id "done")))
          (is (= all-steps (texts page "#progress li")))
          (is (= ["1 × Cup of stoneware" "14.90 €" "done"] (rest (texts page "#orders tr:first-child td"))))
          (is (= [""] (texts page "#problem"))))))))

(deftest ^{:limit 120000} an-order-that-is-given-up-is-shown-as-refunded
  (with-redefs [jobs/backoff (constantly 0)]
    (with-shop {:outside (fn [_ {:keys [step]}] (when (= "packing" step) (throw (ex-info "No answer." {}))))}
      (let [page (open "127.0.0.1")]
        (order page "Honey, 250 g")
        (is (= true (await-end page 1 "refunded")))
        (is (= "What was paid has been returned." (last (texts page "#progress li"))))))))

(deftest ^{:limit 120000} a-page-goes-on-after-a-restart-of-the-shop
  (let [options {:db (support/memory)}
        [called release] (repeatedly promise)
        [port page] (with-shop (assoc options :outside (fn [_ {:keys [step]}]
                                                         (when (= "packing" step)
                                                           (deliver called true)
                                                           @release)))
                      (let [page (open "127.0.0.1")]
                        (order page "Honey, 250 g")
                        (is (= true (chromium/await-true page "document.querySelectorAll('#progress li').length === 2")))
                        (is (= true (deref called 60000 :late)))
                        (chromium/evaluate page "source.addEventListener('error', () => { document.title = 'lost'; }), true")
                        (let [port (http/port :shop/web)
                              stopped (future (application/stop :shop))]
                          (is (= true (chromium/await-true page "document.title === 'lost'")))
                          (deliver release true)
                          (is (= :ok (deref stopped 60000 :late)))
                          [port page])))]
    (with-shop (assoc options :port port)
      (is (= true (await-end page 1 "done")))
      (is (= all-steps (texts page "#progress li"))))))

(deftest ^{:limit 120000} an-answer-that-comes-late-does-not-replace-a-newer-one
  (with-shop {}
    (let [page (open "127.0.0.1")]
      (chromium/evaluate page "{
        const fetchNow = window.fetch;
        let held = false;
        window.fetch = (path, options) => {
          if (path !== '/orders' || options || held) return fetchNow(path, options);
          held = true;
          return fetchNow(path).then(answer => new Promise(resolve => { window.release = () => resolve(answer); }));
        };
        const show = window.showOrders;
        window.running = 0;
        window.showOrders = () => { running++; return show().finally(() => { running--; document.title = running; }); };
        window.late = window.showOrders();
        true
      }")
      (is (= true (chromium/evaluate page "new Promise(resolve => {
        const check = () => { if (window.release) resolve(true); else setTimeout(check); };
        check();
      })")))
      (order page "Honey, 250 g")
      (is (= true (chromium/await-true page "document.querySelectorAll('#progress li').length === 4 && running === 1")))
      (chromium/evaluate page "release(), late.then(() => true)")
      (is (= ["done"] (texts page "#orders td:last-child"))))))

(deftest ^{:limit 120000} what-the-shop-refuses-is-said-on-the-page
  (with-shop {:max-queue 0}
    (let [page (open "127.0.0.1")]
      (order page "Honey, 250 g")
      (is (= true (chromium/await-true page "document.querySelector('#problem').textContent === 'Too many orders wait.'"))))))
